import type { Counters } from '../../contracts/ledger.ts'
import type { Statements } from './client.ts'
import { addCounters, releaseFollowers } from './queries.ts'

type CounterName = Exclude<keyof Counters, 'consumer'>

const names: readonly CounterName[] = [
  'sent',
  'resent',
  'fannedOut',
  'kept',
  'accepted',
  'custody',
  'done',
  'duplicate',
  'ignored',
  'stale',
  'replaced',
  'expired',
  'discarded',
  'dead',
  'repeats',
  'retried',
  'purged',
]

/** What the roles of one transaction share. */
export interface TransactionWork {
  readonly sql: Statements
  readonly transitions: Transitions
  /** Null: the server's clock. */
  readonly now: Date | null
  readonly build: string | null
}

/** The transitions of one transaction, written last before COMMIT: one appended row for each consumer. */
export class Transitions {
  readonly #byConsumer = new Map<string, Map<CounterName, number>>()

  add(consumer: string, name: CounterName, amount = 1): void {
    if (amount === 0) return
    let counts = this.#byConsumer.get(consumer)
    if (!counts) {
      counts = new Map()
      this.#byConsumer.set(consumer, counts)
    }
    counts.set(name, (counts.get(name) ?? 0) + amount)
  }

  async write(sql: Statements): Promise<void> {
    for (const [consumer, counts] of this.#byConsumer)
      await sql.run(addCounters, consumer, ...names.map(name => counts.get(name) ?? 0))
    this.#byConsumer.clear()
  }
}

/**
 * Lets the followers of a key go on, a thousand at a time: each of them is `held`, so the end of the last ones lets the next thousand go. A
 * statement of its own, with a snapshot that sees what a claim marked while the head was ending.
 */
export async function letFollowersGo(work: TransactionWork, consumer: string, key: string | null): Promise<void> {
  if (key !== null) await work.sql.run(releaseFollowers, consumer, key)
}
