import type { Claim, ClaimRequest, Deferral, Finished } from '../contracts/deliveries.ts'
import { IchidoError } from '../contracts/errors.ts'
import type { OutgoingMessage } from '../contracts/message.ts'
import type { Session, SqlTx } from '../contracts/store.ts'
import { deadLetter, released, waitingForVersion } from '../outcomes/decide.ts'
import { runHandler, Watch } from './attempt.ts'
import { failureOf } from './fate.ts'
import { isBatchAbort } from './faults.ts'
import type { RunningConsumer } from './running.ts'
import { blocksKey, type Fate, type Settled, type Work } from './work.ts'

export interface Recorded {
  /** The first of the works, in their order; fewer than all when the time budget was used up. */
  readonly settled: readonly Settled[]
  readonly failures: number
  readonly next: Claim | null
}

/** A handler failed in a way that ends the transaction, or in one that has no savepoints. */
export class HandlerFailure extends Error {
  readonly work: Work
  readonly error: unknown
  readonly durationMs: number
  /** The transaction could not be used any more (timeout, connection lost, awaited outside). */
  readonly brokeTransaction: boolean

  constructor(work: Work, error: unknown, durationMs: number, brokeTransaction: boolean) {
    super('a handler failed', { cause: error })
    this.work = work
    this.error = error
    this.durationMs = durationMs
    this.brokeTransaction = brokeTransaction
  }
}

/**
 * One business transaction: the rows are locked under our epoch, the handlers run in order, what they sent is written, the identities end,
 * what failed is put back. Whatever throws rolls all of it back.
 */
export async function record(
  running: RunningConsumer,
  works: readonly Work[],
  epoch: number,
  isolate: boolean,
  chain: ClaimRequest | null,
): Promise<Recorded> {
  const watch = new Watch(running.clock, running.timeoutMs)
  const round = new Round(running, works, epoch, isolate, watch)
  const giveUp = () =>
    watch.doom(new IchidoError('CLOSED', 'ichido was stopped before the handler returned.', { retryable: true }))
  running.signal.addEventListener('abort', giveUp)
  try {
    const recorded = await running.store.transaction(session => round.run(session, chain), {
      timeoutMs: running.timeoutMs,
    })
    running.onStep?.('committed', round.deliveries)
    return recorded
  } finally {
    running.signal.removeEventListener('abort', giveUp)
    watch.close()
  }
}

class Round {
  readonly deliveries
  readonly #running: RunningConsumer
  readonly #works: readonly Work[]
  readonly #epoch: number
  readonly #isolate: boolean
  readonly #watch: Watch
  readonly #sends: OutgoingMessage[] = []
  readonly #blocked = new Set<string>()
  #failures = 0

  constructor(running: RunningConsumer, works: readonly Work[], epoch: number, isolate: boolean, watch: Watch) {
    this.#running = running
    this.#works = works
    this.#epoch = epoch
    this.#isolate = isolate
    this.#watch = watch
    this.deliveries = works.map(work => work.delivery)
  }

  async run(session: Session<SqlTx>, chain: ClaimRequest | null): Promise<Recorded> {
    const { store, clock, onStep } = this.#running
    session.onDoomed(reason => this.#watch.doom(reason))
    const locked = await session.deliveries.lock(this.deliveries, this.#epoch)
    if (locked !== this.deliveries.length) {
      throw new IchidoError(
        'FENCED',
        `${this.deliveries.length - locked} of ${this.deliveries.length} deliveries have another owner now.`,
      )
    }
    onStep?.('transaction begun', this.deliveries)
    const endsAt = clock.monotonic() + store.facts.batchBudgetMs
    const settled: Settled[] = []
    for (const work of this.#works) {
      if (settled.length > 0 && clock.monotonic() > endsAt) break
      const fate = await this.#bringToEnd(session, work)
      if (blocksKey(fate) && work.delivery.key !== null) this.#blocked.add(work.delivery.key)
      settled.push({ work, fate })
    }
    await this.#write(session, settled)
    onStep?.('recorded', this.deliveries)
    const complete = settled.length === this.#works.length
    const next = chain && complete && this.#failures === 0 ? await session.deliveries.claim(chain) : null
    return { settled, failures: this.#failures, next }
  }

  async #bringToEnd(session: Session<SqlTx>, work: Work): Promise<Fate> {
    const { delivery } = work
    if (delivery.key !== null && this.#blocked.has(delivery.key)) return { kind: 'defer', to: 'released' }
    if (work.fate) return work.fate
    if (
      delivery.replaces !== null &&
      (await session.deliveries.isDone(delivery.consumer, delivery.topic, delivery.replaces))
    ) {
      return { kind: 'finish', outcome: 'duplicate', durationMs: 0 }
    }
    return this.#isolate ? this.#handleIsolated(session, work) : this.#handle(session, work)
  }

  async #handle(session: Session<SqlTx>, work: Work): Promise<Fate> {
    try {
      const subject = { message: work.message as never, prepared: work.prepared, attempt: work.delivery.attempt }
      const outcome = await runHandler(this.#running, session, this.#watch, this.#sends, subject)
      this.#running.onStep?.('handled', [work.delivery])
      return { kind: 'finish', outcome, durationMs: this.#watch.elapsedMs() }
    } catch (error) {
      throw new HandlerFailure(work, error, this.#watch.elapsedMs(), this.#watch.doomed !== null)
    }
  }

  async #handleIsolated(session: Session<SqlTx>, work: Work): Promise<Fate> {
    const sent = this.#sends.length
    let failure: HandlerFailure | null = null
    try {
      return await session.savepoint(async () => {
        try {
          const fate = await this.#handle(session, work)
          // Written here, a message that is refused (ID_REUSED) falls to the handler that sent it.
          if (this.#sends.length > sent) await session.deliveries.accept(this.#sends.splice(sent))
          return fate
        } catch (error) {
          failure =
            error instanceof HandlerFailure ? error : new HandlerFailure(work, error, this.#watch.elapsedMs(), false)
          throw failure
        }
      })
    } catch (error) {
      const fault = failure as HandlerFailure | null
      // What the savepoint itself threw is the store's fault, unless the handler had broken the transaction before.
      if (!fault) throw error
      if (fault !== error || fault.brokeTransaction || isBatchAbort(fault.error)) throw fault
      this.#sends.length = sent
      this.#failures++
      return failureOf(this.#running, work, fault.error, fault.durationMs, true)
    }
  }

  /** Lock order: the user's rows came first; now the sends in one statement, then the ends, then what is put back. */
  async #write(session: Session<SqlTx>, settled: readonly Settled[]): Promise<void> {
    const finished: Finished[] = []
    const deferrals: Deferral[] = []
    for (const { work, fate } of settled) {
      if (fate.kind === 'finish')
        finished.push({ delivery: work.delivery, outcome: fate.outcome, durationMs: fate.durationMs })
      else deferrals.push(this.#deferralOf(work, fate))
    }
    if (this.#sends.length > 0) await session.deliveries.accept(this.#sends)
    if (finished.length > 0) await session.deliveries.finish(finished, this.#epoch)
    if (deferrals.length === 0) return
    const changed = await session.deliveries.defer(deferrals, this.#epoch)
    if (changed.size !== deferrals.length) {
      throw new IchidoError(
        'FENCED',
        `${deferrals.length - changed.size} of ${deferrals.length} deliveries have another owner now.`,
      )
    }
  }

  #deferralOf(work: Work, fate: Exclude<Fate, { kind: 'finish' }>): Deferral {
    if (fate.kind === 'failed') return fate.deferral
    if (fate.to === 'dead') return deadLetter(work.delivery, fate.error, this.#running.failures.onDead)
    return fate.to === 'version' ? waitingForVersion(work.delivery) : released(work.delivery)
  }
}
