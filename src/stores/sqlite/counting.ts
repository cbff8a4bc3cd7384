import type { Counters } from '../../contracts/ledger.ts'
import type { Connection } from './connection.ts'
import { addCounters } from './queries.ts'

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

/** The transitions of one transaction, added up here and written once, last before COMMIT. */
export class Transitions {
  readonly #byConsumer = new Map<string, Map<CounterName, number>>()
  readonly #added: {
    readonly counts: Map<CounterName, number>
    readonly name: CounterName
    readonly amount: number
  }[] = []

  add(consumer: string, name: CounterName, amount = 1): void {
    let counts = this.#byConsumer.get(consumer)
    if (!counts) {
      counts = new Map()
      this.#byConsumer.set(consumer, counts)
    }
    counts.set(name, (counts.get(name) ?? 0) + amount)
    this.#added.push({ counts, name, amount })
  }

  /** Where a savepoint begins; `undoTo` it takes back what was added since. */
  mark(): number {
    return this.#added.length
  }

  undoTo(mark: number): void {
    for (const { counts, name, amount } of this.#added.splice(mark)) counts.set(name, (counts.get(name) ?? 0) - amount)
  }

  write(connection: Connection): void {
    for (const [consumer, counts] of this.#byConsumer) {
      connection.run(addCounters, consumer, ...names.map(name => counts.get(name) ?? 0))
    }
    this.#byConsumer.clear()
    this.#added.length = 0
  }
}
