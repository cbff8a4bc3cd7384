import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { IchidoError, isIchidoError } from '../contracts/errors.ts'
import type { Store } from '../contracts/store.ts'
import { systemClock } from '../runtime/clock.ts'
import type { IchidoConfig } from '../runtime/config.ts'
import { redact } from './terminal.ts'

export interface Place {
  readonly store?: string
  readonly config?: string
}

const configNames = ['ichido.config.ts', 'ichido.config.js', 'ichido.config.mjs']

/** The configuration of the project: `--config`, or one of the usual names in this folder. */
export async function loadConfig(given: string | undefined): Promise<IchidoConfig> {
  const path = given ? resolve(given) : configNames.map(name => resolve(name)).find(candidate => existsSync(candidate))
  if (!path || !existsSync(path)) {
    const hint = 'Give --config PATH, or --store sqlite:PATH or postgres://… for commands that only read.'
    throw new IchidoError(
      'INVALID_CONFIG',
      given ? `There is no file ${given}.` : 'There is no ichido.config.ts in this folder.',
      { hint },
    )
  }
  const module = (await import(pathToFileURL(path).href)) as { default?: IchidoConfig }
  if (!module.default?.options?.store) {
    const hint = 'Write `export default defineIchido({ … })`.'
    throw new IchidoError('INVALID_CONFIG', `${path} has no default export made by defineIchido.`, { hint })
  }
  return module.default
}

interface Opened {
  readonly store: Store
  /** Where it is, without secrets. */
  readonly name: string
  readonly close: () => Promise<void>
}

/** Opens the store that an operator names, or the configuration's. The leaves are loaded here and nowhere else in the command line. */
export async function openStore(place: Place): Promise<Opened> {
  const { store, name, end } = place.store ? await storeFromUrl(place.store) : await storeFromConfig(place.config)
  const host = { clock: systemClock, incarnation: `cli-${process.pid}`, build: null, onTrouble: () => {} }
  try {
    await store.open(host)
  } catch (error) {
    await end()
    if (isIchidoError(error))
      throw new IchidoError('STORE_UNAVAILABLE', `${name}: ${redact(error.message)}`, {
        cause: error,
        hint: error.hint,
      })
    throw error
  }
  return {
    store,
    name,
    async close() {
      await store.close()
      await end()
    },
  }
}

async function storeFromConfig(config: string | undefined) {
  const { store } = await loadConfig(config)
  return { store: store as unknown as Store, name: `the ${store.name} store of the configuration`, end: async () => {} }
}

async function storeFromUrl(url: string) {
  if (url.startsWith('sqlite:')) return sqliteStore(url.slice('sqlite:'.length))
  if (/^postgres(ql)?:\/\//.test(url)) return postgresStore(url)
  throw new IchidoError('INVALID_CONFIG', `${redact(url)} names no store.`, {
    hint: 'Use sqlite:PATH or postgres://user@host/database.',
  })
}

async function sqliteStore(path: string) {
  // Opening would make an empty file, and an operator who mistypes a path would look at nothing and be content.
  if (!existsSync(path))
    throw new IchidoError('STORE_UNAVAILABLE', `There is no database file ${path}.`, {
      hint: 'Check the path after sqlite:.',
    })
  const { sqlite } = await import('../stores/sqlite/store.ts')
  return { store: sqlite(path) as unknown as Store, name: `sqlite:${path}`, end: async () => {} }
}

async function postgresStore(url: string) {
  type Pg = {
    default: { Pool: new (config: object) => { end(): Promise<void>; on(event: 'error', listener: () => void): void } }
  }
  const driver = 'pg'
  const pg = (await import(driver).catch(() => null)) as Pg | null
  if (!pg)
    throw new IchidoError('INVALID_CONFIG', 'The PostgreSQL driver is not installed.', {
      hint: 'Run `npm install pg`.',
    })
  const { postgres } = await import('../stores/postgres/store.ts')
  const pool = new pg.default.Pool({
    connectionString: url,
    max: 3,
    connectionTimeoutMillis: 5_000,
    application_name: 'ichido',
  })
  pool.on('error', () => {})
  return { store: postgres(pool as never) as unknown as Store, name: redact(url), end: () => pool.end() }
}
