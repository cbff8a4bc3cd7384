import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { IchidoError } from '../contracts/errors.ts'
import type { Migration } from '../contracts/store.ts'

export interface AppliedMigration {
  readonly number: number
  readonly name: string
  readonly checksum: string
  readonly breaking: boolean
}

/** Reads `NNN-name.sql` files. A file whose first line is `-- breaking` makes a schema that older workers must not go on with. */
export function readMigrations(folder: URL, prepare: (sql: string) => string = sql => sql): Migration[] {
  const path = fileURLToPath(folder)
  return readdirSync(path)
    .filter(file => file.endsWith('.sql'))
    .sort()
    .map(file => {
      const match = /^(\d{3})-(.+)\.sql$/.exec(file)
      if (!match) throw new IchidoError('INVALID_CONFIG', `The migration ${file} is not named NNN-name.sql.`)
      const text = readFileSync(new URL(file, folder), 'utf8')
      return {
        number: Number(match[1]),
        name: match[2] as string,
        sql: prepare(text),
        breaking: text.startsWith('-- breaking'),
      }
    })
}

export function checksum(migration: Migration): string {
  return createHash('sha256').update(migration.sql).digest('hex')
}

/** What is still to be applied. Throws MIGRATION_CHANGED when an applied one differs, SCHEMA_NEWER when the database is ahead in a breaking way. */
export function pending(known: readonly Migration[], applied: readonly AppliedMigration[]): Migration[] {
  for (const done of applied) {
    const own = known.find(migration => migration.number === done.number)
    if (!own) {
      if (!done.breaking) continue
      throw new IchidoError(
        'SCHEMA_NEWER',
        `The database has the breaking migration ${done.number} (${done.name}), which this version does not know.`,
      )
    }
    if (checksum(own) !== done.checksum) {
      throw new IchidoError(
        'MIGRATION_CHANGED',
        `Migration ${done.number} (${done.name}) was applied with other contents.`,
      )
    }
  }
  return known.filter(migration => !applied.some(done => done.number === migration.number))
}

/** Throws when a worker of this version cannot work with the schema. */
export function checkApplied(known: readonly Migration[], applied: readonly AppliedMigration[] | null): void {
  if (applied === null || applied.length === 0)
    throw new IchidoError('SCHEMA_MISSING', 'The database has no tables of ichido yet.')
  const missing = pending(known, applied)
  if (missing.length > 0)
    throw new IchidoError(
      'SCHEMA_OUTDATED',
      `${missing.length} migration(s) are to be applied, the first is ${missing[0]?.name}.`,
    )
}
