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
  /** Something became claimable: whoever waits is told when this has committed. */
  ring(): void
}

/** The transitions of one transaction, written last before COMMIT: one appended row for each consumer. */
export class Transitions {
  readonly #added: { readonly consumer: string; readonly name: CounterName; readonly amount: number }[] = []

  add(consumer: string, name: CounterName, amount = 1): void {
    if (amount !== 0) this.#added.push({ consumer, name, amount })
  }

  /** Where a savepoint begins; `undoTo` it takes back what was added since. */
  mark(): number {
    return this.#added.length
  }

  undoTo(mark: number): void {
    this.#added.length = mark
  }

  async write(sql: Statements): Promise<void> {
    const byConsumer = new Map<string, Map<CounterName, number>>()
    for (const { consumer, name, amount } of this.#added) {
      const counts = byConsumer.get(consumer) ?? new Map<CounterName, number>()
      byConsumer.set(consumer, counts.set(name, (counts.get(name) ?? 0) + amount))
    }
    for (const [consumer, counts] of byConsumer) {
      await sql.run(addCounters, consumer, ...names.map(name => counts.get(name) ?? 0))
    }
    this.#added.length = 0
  }
}

/**
 * Lets the followers of a key go on, a thousand at a time: each of them is `held`, so the end of the last ones lets the next thousand go. A
 * statement of its own, with a snapshot that sees what a claim marked while the head was ending.
 */
export async function letFollowersGo(work: TransactionWork, consumer: string, key: string | null): Promise<void> {
  if (key === null) return
  await work.sql.run(releaseFollowers, consumer, key)
  work.ring()
}
