import type { Awaitable } from '../../contracts/deliveries.ts'
import { IchidoError, isIchidoError } from '../../contracts/errors.ts'
import { defaults } from '../../contracts/limits.ts'
import type { Session } from '../../contracts/store.ts'
import { PostgresCases } from './cases.ts'
import { storeFault, translate } from './client.ts'
import type { Checkout, Connections } from './connections.ts'
import { PostgresDeliveries } from './deliveries.ts'
import { type PostgresTx, TransactionLease } from './tx.ts'
import { type TransactionWork, Transitions } from './work.ts'

export interface TransactionSettings {
  readonly timeoutMs: number
  readonly now: Date | null
  readonly build: string | null
  /** As `server_version_num` says it. */
  readonly serverVersion: number
  /** Called after the commit when something became claimable. */
  readonly onRung: () => void
}

/** The server frees the rows of an owner that is paused, or that waits for something else, after the handlers' own timeout and a second. */
function begin({ timeoutMs, serverVersion }: TransactionSettings): string {
  const ms = Math.min(Math.round(timeoutMs) + 1_000, defaults.transactionMs)
  const limits = ['idle_in_transaction_session_timeout', 'statement_timeout']
  if (serverVersion >= 170_000) limits.push('transaction_timeout')
  // The claim and the fences stand on READ COMMITTED, whatever the database's default is.
  const settings = limits.map(limit => `set local ${limit} = ${ms}`).join('; ')
  return `begin isolation level read committed read write; ${settings}`
}

/** Runs `work` in a transaction of its own on a client of the pool. */
export async function runTransaction<T>(
  connections: Connections,
  settings: TransactionSettings,
  work: (session: Session<PostgresTx>, own: TransactionWork) => Awaitable<T>,
): Promise<T> {
  const checkout = await connections.checkout()
  const attempt = new TransactionAttempt(checkout, settings)
  try {
    return await attempt.run(work)
  } finally {
    checkout.release(attempt.unclear)
  }
}

class TransactionAttempt {
  /** Nobody knows what the connection is doing: it must not go back to the pool. */
  unclear = false
  readonly #checkout: Checkout
  readonly #settings: TransactionSettings
  readonly #leases = new Set<TransactionLease>()
  #doomed: { readonly reason: unknown } | null = null
  #listener: ((reason: unknown) => void) | null = null
  #savepoints = 0

  constructor(checkout: Checkout, settings: TransactionSettings) {
    this.#checkout = checkout
    this.#settings = settings
  }

  async run<T>(work: (session: Session<PostgresTx>, own: TransactionWork) => Awaitable<T>): Promise<T> {
    const { client, sql } = this.#checkout
    let rung = false
    const own: TransactionWork = {
      sql,
      transitions: new Transitions(),
      now: this.#settings.now,
      build: this.#settings.build,
      ring: () => {
        rung = true
      },
    }
    try {
      await client.query(begin(this.#settings))
    } catch (error) {
      this.unclear = true
      throw translate(error)
    }
    this.#checkout.onBroken(error => this.#doom(translate(error)))
    try {
      const value = await work(this.#session(own), own)
      if (this.#doomed) throw this.#doomed.reason
      await own.transitions.write(sql)
      await this.#commit()
      if (rung) this.#settings.onRung()
      return value
    } catch (error) {
      await this.#rollback()
      // The loss of the connection is heard too; but once COMMIT is on its way only this says that nobody knows how it ended.
      if (isIchidoError(error, 'COMMIT_UNKNOWN')) throw error
      throw this.#doomed ? this.#doomed.reason : (storeFault(error) ?? error)
    }
  }

  #session(own: TransactionWork): Session<PostgresTx> {
    return {
      deliveries: new PostgresDeliveries(own),
      cases: new PostgresCases(own),
      lease: scope => {
        const lease = new TransactionLease(this.#checkout.client, scope, own.transitions)
        this.#leases.clear()
        this.#leases.add(lease)
        return lease
      },
      savepoint: inner => this.#savepoint(own.transitions, inner),
      onDoomed: listener => {
        this.#listener = listener
        if (this.#doomed) listener(this.#doomed.reason)
      },
    }
  }

  async #savepoint<T>(transitions: Transitions, inner: () => Awaitable<T>): Promise<T> {
    const { client } = this.#checkout
    const name = `ichido_handler_${++this.#savepoints}`
    const mark = transitions.mark()
    await client.query(`savepoint ${name}`)
    try {
      const value = await inner()
      await client.query(`release ${name}`)
      return value
    } catch (error) {
      transitions.undoTo(mark)
      if (this.#busy() || this.#doomed) {
        this.unclear = true
        throw error
      }
      try {
        await client.query(`rollback to ${name}; release ${name}`)
      } catch (failure) {
        this.#doom(translate(failure))
      }
      throw error
    }
  }

  async #commit(): Promise<void> {
    let command: string
    try {
      command = (await this.#checkout.client.query('commit')).command
    } catch (error) {
      this.unclear = true
      if (storeFault(error) || this.#checkout.broken) {
        throw new IchidoError('COMMIT_UNKNOWN', 'The connection was lost before the answer to COMMIT.', {
          cause: error,
        })
      }
      throw error
    }
    // PostgreSQL answers COMMIT of an aborted transaction with ROLLBACK, and no error.
    if (command !== 'COMMIT')
      throw new IchidoError(
        'TX_STATEMENT_FAILED',
        'The transaction was aborted by a failed statement, and COMMIT rolled it back.',
      )
  }

  async #rollback(): Promise<void> {
    if (this.unclear || this.#busy() || this.#checkout.broken) {
      this.unclear = true
      return
    }
    try {
      await this.#checkout.client.query('rollback')
    } catch {
      // What counts is that the client is not used again; the server rolls back when the connection ends.
      this.unclear = true
    }
  }

  /** A statement of the handler has no answer yet: the client would queue behind it. */
  #busy(): boolean {
    return [...this.#leases].some(lease => lease.inFlight > 0)
  }

  #doom(reason: unknown): void {
    this.#doomed ??= { reason }
    for (const lease of this.#leases) lease.close()
    this.#listener?.(reason)
  }
}
