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

  add(consumer: string, name: CounterName, amount = 1): void {
    let counts = this.#byConsumer.get(consumer)
    if (!counts) {
      counts = new Map()
      this.#byConsumer.set(consumer, counts)
    }
    counts.set(name, (counts.get(name) ?? 0) + amount)
  }

  write(connection: Connection): void {
    for (const [consumer, counts] of this.#byConsumer) {
      connection.run(addCounters, consumer, ...names.map(name => counts.get(name) ?? 0))
    }
    this.#byConsumer.clear()
  }
}
