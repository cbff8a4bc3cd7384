import type { Store } from '../../src/contracts/store.ts'
import { postgres } from '../../src/stores/postgres/store.ts'
import type { StoreFixture } from '../../src/testing/index.ts'
import type { TestDatabase } from './postgres-database.ts'

/** One database for all tests, emptied before each: creating one takes longer than a test. */
export async function createPostgresFixture(database: TestDatabase): Promise<StoreFixture> {
  await database.clear()
  const pool = database.pool()
  return {
    store: () => postgres(pool) as unknown as Store<never, never>,
    placeholder: n => `$${n}`,
    table: name => `ichido.${name}`,
    async foreign(work) {
      const client = await pool.connect()
      try {
        await client.query('begin')
        const query = (sql: string, ...params: readonly unknown[]) => client.query(sql, [...params])
        const result = await work(client as never, query)
        await client.query('commit')
        return result
      } catch (error) {
        await client.query('rollback')
        throw error
      } finally {
        client.release()
      }
    },
    close: () => pool.end(),
  }
}
