import type { Migration } from '../../contracts/store.ts'
import type { AppliedMigration } from '../migrator.ts'
import type { Connection } from './connection.ts'

const createTable = `create table if not exists ichido_migration
  (number integer primary key, name text not null, checksum text not null, breaking integer not null, applied_at integer not null)`

/** Null: the database has never seen ichido. */
export function readApplied(connection: Connection): AppliedMigration[] | null {
  const exists = connection.get(
    "select 1 as known from sqlite_schema where type = 'table' and name = 'ichido_migration'",
  )
  if (!exists) return null
  const rows = connection.all<{ number: number; name: string; checksum: string; breaking: number }>(
    'select number, name, checksum, breaking from ichido_migration order by number',
  )
  return rows.map(row => ({ ...row, breaking: row.breaking === 1 }))
}

export function applyMigration(connection: Connection, migration: Migration, checksum: string, now: number): void {
  connection.exec(createTable)
  connection.exec(migration.sql)
  const { number, name, breaking } = migration
  connection.run('insert into ichido_migration values (?, ?, ?, ?, ?)', number, name, checksum, breaking ? 1 : 0, now)
}
