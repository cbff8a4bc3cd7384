/** The database of a run: its tables, its faults, and what is read from it at the end. Imports nothing from src. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { startPostgres } from '../../scripts/services/postgres.ts'
import type { Evidence } from './checker.ts'
import type { Intent } from './settings.ts'

export interface Database {
  readonly place: string
  /** Breaks the server for a moment; null where there is none. */
  readonly restart: (() => Promise<void>) | null
  readonly terminate: () => Promise<void>
  query(sql: string): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

const tables = (id: string) =>
  `create table effect (at ${id}, id text not null, key text, seq integer not null); create table business (id text not null);`

export function openSqlite(folder: string): Database {
  const place = `${folder}/chaos.db`
  const database = new DatabaseSync(place, { timeout: 10_000 })
  database.exec(`pragma journal_mode = wal; ${tables('integer primary key')}`)
  return {
    place,
    restart: null,
    terminate: async () => {},
    query: async sql => database.prepare(sql.replaceAll('ichido.', 'ichido_')).all() as Record<string, unknown>[],
    close: async () => database.close(),
  }
}

export async function openPostgres(): Promise<Database> {
  const server = await startPostgres({})
  const pool = new pg.Pool({ connectionString: server.url, max: 2 })
  pool.on('error', () => {})
  await pool.query(tables('bigserial'))
  return {
    place: server.url,
    restart: () => server.restart({ immediate: true }),
    async terminate() {
      const others = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and random() < 0.5`
      await pool.query(others).catch(() => {})
    },
    async query(sql) {
      for (let tries = 0; ; tries++) {
        try {
          return (await pool.query(sql)).rows
        } catch (error) {
          if (tries === 50) throw error
          await new Promise(resolve => setTimeout(resolve, 200))
        }
      }
    },
    async close() {
      await pool.end()
      await server.stop()
    },
  }
}

export async function collect(database: Database, folder: string): Promise<Evidence & { readonly duplicates: number }> {
  const intents = new Map<string, Intent>()
  const confirmed = new Set<string>()
  let duplicates = 0
  for (const file of readdirSync(folder).filter(name => name.startsWith('journal-'))) {
    for (const line of readFileSync(`${folder}/${file}`, 'utf8').split('\n')) {
      const match = /^(intent|confirmed|duplicate) (\S+) (\{.*\})$/.exec(line)
      // A line that was cut by a kill was not synced, so nothing was sent for it.
      if (!match) continue
      if (match[1] === 'intent') intents.set(match[2] as string, JSON.parse(match[3] as string))
      else if (match[1] === 'confirmed') confirmed.add(match[2] as string)
      else duplicates++
    }
  }
  const effects = (await database.query(
    'select id, key, seq from effect order by at',
  )) as unknown as Evidence['effects']
  const open = (await database.query(
    'select message_id as id, key, state from ichido.delivery',
  )) as unknown as Evidence['open']
  const business = new Set((await database.query('select id from business')).map(row => row.id as string))
  return { intents, confirmed, effects, open, business, duplicates }
}

export function countLines(path: string): number {
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0
}
