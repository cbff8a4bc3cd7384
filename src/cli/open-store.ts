import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type ErrorCode, IchidoError, isIchidoError } from '../contracts/errors.ts'
import type { Store } from '../contracts/store.ts'
import { systemClock } from '../runtime/clock.ts'
import type { IchidoConfig } from '../runtime/config.ts'
import { loadConfig } from './load-config.ts'
import { redactAddress } from './terminal.ts'

export interface Place {
  readonly store?: string
  readonly config?: string
}

/**
 *   look     reads; an SQLite file that is named by its path is opened read-only
 *   change   writes into a store that exists
 *   create   may make the file of a store
 */
export type Purpose = 'look' | 'change' | 'create'

export interface Opened {
  readonly store: Store
  /** Where it is, without secrets. */
  readonly name: string
  /** Null when the store was named by its address. */
  readonly config: IchidoConfig | null
}

interface Found extends Opened {
  readonly end: () => Promise<void>
}

/** Opens the store that an operator names, or the configuration's, and closes it when `work` is over. */
export async function withStore<T>(place: Place, purpose: Purpose, work: (opened: Opened) => Promise<T>): Promise<T> {
  const found = place.store ? await storeOfAddress(place.store, purpose) : await storeOfConfig(place.config)
  try {
    await open(found)
    try {
      return await work(found)
    } finally {
      await found.store.close()
    }
  } finally {
    await found.end()
  }
}

async function open({ store, name }: Found): Promise<void> {
  try {
    await store.open({ clock: systemClock, incarnation: `cli-${process.pid}`, build: null, onTrouble: () => {} })
  } catch (error) {
    if (!isIchidoError(error)) throw error
    // The hints of the codes speak to a worker, which tries again by itself; a command does not.
    const hint = error.retryable
      ? 'Check that the database is up and reachable, and run the command again.'
      : error.hint
    throw new IchidoError(error.code as ErrorCode, `${name}: ${error.message}`, { cause: error, hint })
  }
}

async function storeOfConfig(path: string | undefined): Promise<Found> {
  const config = await loadConfig(path)
  const name = `the ${config.store.name} store of the configuration`
  return { store: config.store as unknown as Store, name, config, end: async () => {} }
}

async function storeOfAddress(address: string, purpose: Purpose): Promise<Found> {
  if (address.startsWith('sqlite:')) return sqliteStore(address.replace(/^sqlite:(\/\/)?/, ''), purpose)
  if (/^postgres(ql)?:\/\//.test(address)) return postgresStore(address)
  throw new IchidoError('INVALID_CONFIG', `${redactAddress(address)} names no store.`, {
    hint: 'Use sqlite:PATH or postgres://USER@HOST/DATABASE.',
  })
}

async function sqliteStore(path: string, purpose: Purpose): Promise<Found> {
  // Opening would make an empty file, and an operator who mistypes a path would look at nothing and be content.
  if (purpose !== 'create' && !existsSync(path)) {
    const hint = 'Check the path after sqlite:.'
    throw new IchidoError('STORE_UNAVAILABLE', `There is no database file ${path || '(no path given)'}.`, { hint })
  }
  const { sqlite } = await import('../stores/sqlite/store.ts')
  const store = sqlite(path, { readOnly: purpose === 'look' }) as unknown as Store
  return { store, name: `sqlite:${path}`, config: null, end: async () => {} }
}

interface Pool {
  end(): Promise<void>
  on(event: 'error', listener: () => void): void
}

async function postgresStore(address: string): Promise<Found> {
  const { Pool } = await loadDriver()
  const { postgres } = await import('../stores/postgres/store.ts')
  const settings = { connectionString: address, max: 3, connectionTimeoutMillis: 5_000, application_name: 'ichido' }
  const name = redactAddress(address)
  if (!URL.canParse(address)) {
    const hint = 'Use postgres://USER@HOST/DATABASE, with special characters written as %40 and so on.'
    throw new IchidoError('INVALID_CONFIG', `${name} is no address of a PostgreSQL database.`, { hint })
  }
  const pool = new Pool(settings)
  pool.on('error', () => {})
  return { store: postgres(pool as never) as unknown as Store, name, config: null, end: () => pool.end() }
}

/** `pg` is the user's: beside ichido, or in the project that the command runs in. */
async function loadDriver(): Promise<{ Pool: new (settings: object) => Pool }> {
  const driver = 'pg'
  const places = [
    () => import(driver),
    () => import(pathToFileURL(createRequire(resolve('ichido')).resolve(driver)).href),
  ]
  for (const load of places) {
    try {
      return ((await load()) as { default: { Pool: new (settings: object) => Pool } }).default
    } catch (error) {
      if (!['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes((error as { code?: string }).code ?? '')) throw error
    }
  }
  throw new IchidoError('INVALID_CONFIG', 'The PostgreSQL driver is not installed.', {
    hint: 'Run `npm install pg` in this folder, and the command again.',
  })
}
