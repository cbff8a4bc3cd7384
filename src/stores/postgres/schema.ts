import type { Migration } from '../../contracts/store.ts'
import { type AppliedMigration, checksum, pending } from '../migrator.ts'
import type { Statements } from './client.ts'

const createTable = `create schema if not exists ichido; create table if not exists ichido.migration
  (number int primary key, name text not null, checksum text not null, breaking boolean not null, applied_at timestamptz not null default clock_timestamp())`

/** Null: the database has never seen ichido. */
export async function readApplied(sql: Statements): Promise<AppliedMigration[] | null> {
  const exists = await sql.get<{ known: boolean }>(`select to_regclass('ichido.migration') is not null as known`)
  if (!exists?.known) return null
  return sql.all<AppliedMigration>('select number, name, checksum, breaking from ichido.migration order by number')
}

/** Applies the next pending migration in its own transaction, under a lock that other migrators wait for. Null: nothing is pending. */
export async function applyNext(sql: Statements, migrations: readonly Migration[]): Promise<Migration | null> {
  const { client } = sql
  await client.query(`begin; select pg_advisory_xact_lock(hashtextextended('ichido.migrate', 0))`)
  try {
    const next = pending(migrations, (await readApplied(sql)) ?? [])[0] ?? null
    if (next) {
      await client.query(createTable)
      await client.query(next.sql)
      const { number, name, breaking } = next
      await client.query('insert into ichido.migration (number, name, checksum, breaking) values ($1, $2, $3, $4)', [
        number,
        name,
        checksum(next),
        breaking,
      ])
    }
    await client.query('commit')
    return next
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
