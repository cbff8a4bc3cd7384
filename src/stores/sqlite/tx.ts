import type { Awaitable } from '../../contracts/deliveries.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { SqlTx, TxLease } from '../../contracts/store.ts'
import { sortableVersion } from '../../contracts/version.ts'
import type { Connection, SqlValue } from './connection.ts'
import { Transitions } from './counting.ts'
import { isBusy, storeFault } from './errors.ts'
import { advanceGuard } from './queries.ts'

/** What a handler may use of the transaction. `run`, `get` and `all` answer at once; awaiting them is allowed and does no harm. */
export interface SqliteTx extends SqlTx {
  run(sql: string, ...params: readonly unknown[]): { readonly changes: number }
  get<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Row | undefined
  all<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Row[]
  advance(entity: string, version: number | string, tieBreaker?: string): boolean
}

const control =
  /^\s*(?:--[^\n]*\n|\/\*[\s\S]*?\*\/|\s)*(?:begin|commit|end|rollback|savepoint|release|attach|detach|vacuum|pragma)\b/i
const checked = new Map<string, boolean>()

function isControl(sql: string): boolean {
  let answer = checked.get(sql)
  if (answer === undefined) {
    answer = control.test(sql)
    if (checked.size > 5_000) checked.clear()
    checked.set(sql, answer)
  }
  return answer
}

/** Booleans are numbers in SQLite; everything else goes as it is, and the driver says what it cannot bind. */
function bindable(params: readonly unknown[]): SqlValue[] {
  for (const [index, param] of params.entries()) {
    if (typeof param === 'boolean' || param === undefined) {
      const copy = [...params]
      for (let at = index; at < copy.length; at++) {
        if (typeof copy[at] === 'boolean') copy[at] = copy[at] ? 1 : 0
        else if (copy[at] === undefined) copy[at] = null
      }
      return copy as SqlValue[]
    }
  }
  return params as SqlValue[]
}

/** One handler's lease on the transaction: shut when the handler has settled, so that nothing it left running can write. */
export class TransactionLease implements TxLease<SqliteTx>, SqliteTx {
  readonly #connection: Connection
  readonly #scope: string
  readonly #onEnded: (reason: unknown) => void
  readonly #transitions: Transitions
  #closed = false
  #failed: unknown
  #depth = 0

  constructor(
    connection: Connection,
    scope: string,
    onEnded: (reason: unknown) => void,
    transitions: Transitions = new Transitions(),
  ) {
    this.#transitions = transitions
    this.#connection = connection
    this.#scope = scope
    this.#onEnded = onEnded
  }

  get tx(): SqliteTx {
    return this
  }

  run(sql: string, ...params: readonly unknown[]): { readonly changes: number } {
    this.#check(sql)
    try {
      return { changes: Number(this.#connection.prepare(sql).run(...bindable(params)).changes) }
    } catch (error) {
      throw this.#remember(error)
    }
  }

  get<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Row | undefined {
    this.#check(sql)
    try {
      return this.#connection.prepare(sql).get(...bindable(params)) as Row | undefined
    } catch (error) {
      throw this.#remember(error)
    }
  }

  all<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Row[] {
    this.#check(sql)
    try {
      return this.#connection.prepare(sql).all(...bindable(params)) as Row[]
    } catch (error) {
      throw this.#remember(error)
    }
  }

  advance(entity: string, version: number | string, tieBreaker = ''): boolean {
    this.#check('')
    const sortable = sortableVersion(version)
    try {
      return this.#connection.run(advanceGuard, this.#scope, entity, sortable, tieBreaker) === 1
    } catch (error) {
      throw this.#remember(error)
    }
  }

  async savepoint<T>(work: () => Awaitable<T>): Promise<T> {
    this.#check('')
    const name = `ichido_tx_${++this.#depth}`
    const failedBefore = this.#failed
    const mark = this.#transitions.mark()
    this.#connection.run(`savepoint ${name}`)
    try {
      const result = await work()
      this.#check('')
      this.#connection.run(`release ${name}`)
      return result
    } catch (error) {
      if (!this.#closed && this.#connection.inTransaction) {
        this.#connection.run(`rollback to ${name}`)
        this.#connection.run(`release ${name}`)
        this.#failed = failedBefore
        // What was sent inside is gone, so it is not counted.
        this.#transitions.undoTo(mark)
      }
      throw error
    } finally {
      this.#depth--
    }
  }

  /** Refuses what would end up in another transaction than the caller thinks: the `tx` of another store, or one that is over. */
  assertOpenOn(connection: Connection): void {
    if (this.#connection !== connection) throw new IchidoError('TX_FOREIGN', 'tx belongs to another store.')
    this.#check('')
  }

  close(): IchidoError | null {
    if (this.#closed) return null
    this.#closed = true
    if (!this.#connection.inTransaction) {
      const error = new IchidoError(
        'TX_CONTROL',
        'A statement of the handler ended the transaction (a conflict clause or trigger with ROLLBACK).',
      )
      this.#onEnded(error)
      return error
    }
    if (this.#depth > 0) {
      return new IchidoError('TX_STATEMENT_IN_FLIGHT', 'A savepoint of the handler had not ended when it returned.')
    }
    if (this.#failed === undefined) return null
    const text = 'A statement of the handler failed, and the handler returned as if nothing had happened.'
    return new IchidoError('TX_STATEMENT_FAILED', text, { cause: this.#failed })
  }

  #check(sql: string): void {
    if (this.#closed) throw new IchidoError('TX_CLOSED', 'tx was used after the handler had settled.')
    if (sql !== '' && isControl(sql))
      throw new IchidoError('TX_CONTROL', 'tx does not run transaction control, ATTACH, VACUUM or PRAGMA.')
  }

  #remember(error: unknown): unknown {
    this.#failed = error
    // A full disk is nobody's fault: the whole transaction waits for the store, and no message is charged.
    const fault = isBusy(error) ? undefined : storeFault(error)
    if (fault || !this.#connection.inTransaction) this.#onEnded(fault ?? error)
    return error
  }
}
