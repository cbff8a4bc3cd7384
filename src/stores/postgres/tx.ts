import type { Awaitable } from '../../contracts/deliveries.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { SqlTx, TxLease } from '../../contracts/store.ts'
import { sortableVersion } from '../../contracts/version.ts'
import type { PgClient, QueryConfig, QueryResult } from './client.ts'
import { advanceGuard } from './queries.ts'
import type { Transitions } from './work.ts'

/** What a handler may use of the transaction. `query` has the shape of pg's own, so that query builders can stand on it. */
export interface PostgresTx extends SqlTx {
  run(sql: string, ...params: readonly unknown[]): Promise<{ readonly changes: number }>
  get<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Promise<Row | undefined>
  all<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Promise<Row[]>
  query<Row = Record<string, unknown>>(
    config: string | QueryConfig,
    values?: unknown[],
  ): Promise<QueryResult & { readonly rows: Row[] }>
  advance(entity: string, version: number | string, tieBreaker?: string): Promise<boolean>
}

const control =
  /^\s*(?:--[^\n]*\n|\/\*[\s\S]*?\*\/|\s)*(?:begin|commit|end|rollback|abort|savepoint|release|start\s+transaction|prepare\s+transaction|set\s+(?!local\b)|discard|listen|unlisten|copy)\b/i

/** One handler's lease on the transaction: shut when the handler has settled, so that nothing it left running can write. */
export class TransactionLease implements TxLease<PostgresTx>, PostgresTx {
  readonly client: PgClient
  readonly #scope: string
  readonly #transitions: Transitions
  #closed = false
  #failed: unknown
  #inFlight = 0
  #depth = 0

  constructor(client: PgClient, scope: string, transitions: Transitions) {
    this.client = client
    this.#scope = scope
    this.#transitions = transitions
  }

  get tx(): PostgresTx {
    return this
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Statements that were not answered when the lease was closed. */
  get inFlight(): number {
    return this.#inFlight
  }

  async query<Row = Record<string, unknown>>(
    config: string | QueryConfig,
    values?: unknown[],
  ): Promise<QueryResult & { readonly rows: Row[] }> {
    const query: QueryConfig = typeof config === 'string' ? { text: config } : config
    this.#check(query.text)
    // The extended protocol takes one statement: a COMMIT cannot hide behind another.
    const single = { ...query, ...(values && { values }), queryMode: 'extended' }
    return this.#count(() => this.client.query(single)) as Promise<QueryResult & { readonly rows: Row[] }>
  }

  async run(sql: string, ...params: readonly unknown[]): Promise<{ readonly changes: number }> {
    return { changes: (await this.query(sql, params as unknown[])).rowCount ?? 0 }
  }

  async get<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Promise<Row | undefined> {
    return (await this.query<Row>(sql, params as unknown[])).rows[0]
  }

  async all<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Promise<Row[]> {
    return (await this.query<Row>(sql, params as unknown[])).rows
  }

  async advance(entity: string, version: number | string, tieBreaker = ''): Promise<boolean> {
    return (await this.run(advanceGuard, this.#scope, entity, sortableVersion(version), tieBreaker)).changes === 1
  }

  async savepoint<T>(work: () => Awaitable<T>): Promise<T> {
    this.#check('')
    const name = `ichido_tx_${++this.#depth}`
    const failedBefore = this.#failed
    const mark = this.#transitions.mark()
    await this.#count(() => this.client.query(`savepoint ${name}`))
    try {
      const result = await work()
      this.#check('')
      await this.#count(() => this.client.query(`release ${name}`))
      return result
    } catch (error) {
      if (!this.#closed) {
        this.#transitions.undoTo(mark)
        await this.#count(() => this.client.query(`rollback to ${name}; release ${name}`))
        this.#failed = failedBefore
      }
      throw error
    } finally {
      this.#depth--
    }
  }

  close(): IchidoError | null {
    if (this.#closed) return null
    this.#closed = true
    if (this.#inFlight > 0) {
      return new IchidoError(
        'TX_STATEMENT_IN_FLIGHT',
        `The handler returned while ${this.#inFlight} statement(s) were not answered.`,
      )
    }
    if (this.#failed === undefined) return null
    const text = 'A statement of the handler failed, and the handler returned as if nothing had happened.'
    return new IchidoError('TX_STATEMENT_FAILED', text, { cause: this.#failed })
  }

  #check(sql: string): void {
    if (this.#closed) throw new IchidoError('TX_CLOSED', 'tx was used after the handler had settled.')
    if (sql !== '' && control.test(sql))
      throw new IchidoError('TX_CONTROL', 'tx does not run transaction control, session settings or COPY.')
  }

  async #count<T>(statement: () => Promise<T>): Promise<T> {
    this.#inFlight++
    try {
      return await statement()
    } catch (error) {
      this.#failed = error
      throw error
    } finally {
      this.#inFlight--
    }
  }
}
