import { createHash } from 'node:crypto'
import { type ErrorCode, IchidoError, isIchidoError } from '../../contracts/errors.ts'

export interface QueryResult {
  readonly rows: unknown[]
  readonly rowCount: number | null
  readonly command: string
}

export interface QueryConfig {
  readonly text: string
  readonly values?: unknown[]
  readonly name?: string
  readonly queryMode?: string
}

/** What ichido calls on a client of `pg`. */
export interface PgClient {
  query(config: string | QueryConfig, values?: unknown[]): Promise<QueryResult>
  /** `I` idle, `T` in a transaction, `E` in a failed one; pg 8.17 and later. */
  getTransactionStatus?(): string | null
}

export interface PgPoolClient extends PgClient {
  release(destroy?: Error | boolean): void
  // biome-ignore lint/suspicious/noExplicitAny: what the driver declares; anything narrower refuses a real pg.Pool
  on(event: 'error' | 'notification', listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same
  removeListener(event: 'error' | 'notification', listener: (...args: any[]) => void): unknown
}

/** What ichido calls on a `pg.Pool`. The pool stays the user's: ichido never ends it. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  readonly options?: unknown
}

const names = new Map<string, string>()

/**
 * Only these are prepared under a name: calls of functions, whose plans are pinned, and inserts of values, which have none. The plan of
 * anything else would be kept from a time when the table was small, and scan it when a burst has filled it.
 */
const preparable =
  /^select [^;]*?\bichido\.(accept|claim|lock_mine|finish|release_followers)\(|^insert into [^;]* values/

/** The same text has the same name everywhere; '' for none. */
function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    const hash = createHash('sha1').update(text).digest('hex')
    name = preparable.test(text) ? `ichido_${hash.slice(0, 20)}` : ''
    names.set(text, name)
  }
  return name
}

/** One of ichido's own statements, prepared under a name on the connection unless a pooler forbids that. */
export class Statements {
  readonly client: PgClient
  readonly #named: boolean

  constructor(client: PgClient, named: boolean) {
    this.client = client
    this.#named = named
  }

  async all<Row>(text: string, ...values: unknown[]): Promise<Row[]> {
    return (await this.#query(text, values)).rows as Row[]
  }

  async get<Row>(text: string, ...values: unknown[]): Promise<Row | undefined> {
    return (await this.#query(text, values)).rows[0] as Row | undefined
  }

  async run(text: string, ...values: unknown[]): Promise<number> {
    return (await this.#query(text, values)).rowCount ?? 0
  }

  async #query(text: string, values: unknown[]): Promise<QueryResult> {
    try {
      const query = { text, values: values.map(storable) }
      const name = this.#named ? nameOf(text) : ''
      return await this.client.query(name === '' ? query : { ...query, name })
    } catch (error) {
      throw translate(error)
    }
  }
}

/** The text type refuses U+0000, and an error's text or a foreign header may hold one: storing a failure must not fail. */
function storable(value: unknown): unknown {
  return typeof value === 'string' && value.includes('\u0000') ? value.replaceAll('\u0000', '\ufffd') : value
}

const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
])
const lostTexts =
  /connection terminated|connection ended|client has encountered a connection error|timeout exceeded when trying to connect|not queryable|pool after calling end/i

/** Which code of ichido an error of the driver stands for, or null when it is about the statement only. */
function codeOf(error: unknown): ErrorCode | null {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof code === 'string') {
    if (
      socketCodes.has(code) ||
      code.startsWith('08') ||
      /^57P0[1-5]$/.test(code) ||
      code === '25P03' ||
      code === '25P04'
    )
      return 'STORE_UNAVAILABLE'
    if (code === '53300' || code.startsWith('28') || code === '3D000') return 'STORE_UNAVAILABLE'
    if (code === '25006') return 'STORE_READ_ONLY'
    if (code === '53100') return 'STORE_FULL'
    if (code === 'XX001' || code === 'XX002') return 'STORE_CORRUPT'
  }
  return typeof message === 'string' && lostTexts.test(message) ? 'STORE_UNAVAILABLE' : null
}

/** The database itself fails, whoever's statement met it; undefined for what the statement is to blame for. */
export function storeFault(error: unknown): IchidoError | undefined {
  const code = codeOf(error)
  return code ? new IchidoError(code, `PostgreSQL: ${(error as Error).message}.`, { cause: error }) : undefined
}

/** Errors of ichido's own statements. Deadlocks and their like keep the SQLSTATE on the cause. */
export function translate(error: unknown): unknown {
  if (isIchidoError(error)) return error
  return (
    storeFault(error) ?? new IchidoError('STORE_ERROR', `PostgreSQL: ${(error as Error)?.message}.`, { cause: error })
  )
}
