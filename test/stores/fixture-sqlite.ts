import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import type { Store } from '../../src/contracts/store.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import type { StoreFixture } from '../../src/testing/index.ts'

/** A file of its own for each test; the user's driver is a second connection to it. */
export async function createSqliteFixture(): Promise<StoreFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'ichido-conformance-'))
  const path = join(folder, 'app.db')
  return {
    store: () => sqlite(path) as unknown as Store<never, never>,
    placeholder: () => '?',
    table: name => `ichido_${name}`,
    async foreign(work) {
      const database = new DatabaseSync(path, { timeout: 1_000 })
      try {
        database.exec('begin immediate')
        const query = async (sql: string, ...params: readonly unknown[]) =>
          database.prepare(sql).all(...(params as SQLInputValue[]))
        const result = await work(database as never, query)
        database.exec('commit')
        return result
      } finally {
        database.close()
      }
    },
    close: async () => rmSync(folder, { recursive: true, force: true }),
  }
}
