import type { DeliveryState, IdentityState } from './outcome.ts'

/**
 * Transitions, added up. Counted in the transaction that makes them. The row of the sender has the consumer `''`.
 *
 * Sender: `sent` messages taken in (a repeat with the same contents is `resent` and nothing else), `fannedOut` deliveries made,
 * `kept` net number of messages that wait for a consumer. Receiver: `accepted` deliveries = unfinished + the ends; `custody` is the
 * part of `accepted` that came from transports; `dead` is the net number of dead letters (part of the unfinished);
 * `repeats` are copies acked as duplicates; `retried` attempts put back for later; `purged` finished identities deleted.
 */
export interface Counters {
  readonly consumer: string
  readonly sent: number
  readonly resent: number
  readonly fannedOut: number
  readonly kept: number
  readonly accepted: number
  readonly custody: number
  readonly done: number
  readonly duplicate: number
  readonly ignored: number
  readonly stale: number
  readonly replaced: number
  readonly expired: number
  readonly discarded: number
  readonly dead: number
  readonly repeats: number
  readonly retried: number
  readonly purged: number
}

/** Counters and counts of one snapshot; `observe/books.ts` compares them. */
export interface LedgerSnapshot {
  readonly counters: readonly Counters[]
  readonly unfinished: readonly { readonly consumer: string; readonly state: DeliveryState; readonly count: number }[]
  readonly openIdentities: readonly { readonly consumer: string; readonly count: number }[]
  readonly kept: number
  /** Counted in the same snapshot when it was asked for: a count of another moment would differ while work goes on. */
  readonly sweep?: LedgerSweep
}

/** A slow count of the finished identities; only the sweep of `ichido books --sweep` asks for it. */
export type LedgerSweep = readonly {
  readonly consumer: string
  readonly state: IdentityState
  readonly count: number
}[]

/** One consumer as `ichido status` shows it. Times are milliseconds since 1970 on the store's clock. */
export interface ConsumerStatus {
  readonly consumer: string
  readonly topics: readonly string[]
  /** Unfinished deliveries by state; `ready` without those in progress. */
  readonly states: Readonly<Record<DeliveryState, number>>
  readonly inProgress: number
  /** The later of first send and due time of the oldest delivery that waits or runs (not delayed, behind or dead). */
  readonly oldestAt: number | null
  /** Processes that neither left nor were declared lost. */
  readonly processes: number
  /** The newest beat of these processes. When nobody is left to declare the last one lost, this tells that it is silent. */
  readonly beatAt: number | null
  readonly counters: Counters
}

export interface StoreStatus {
  readonly now: number
  readonly consumers: readonly ConsumerStatus[]
  readonly kept: number
}

/** One line of `ichido doctor`: a fact, judged. */
export interface Finding {
  readonly name: string
  readonly value: string
  readonly level: 'ok' | 'warning' | 'critical'
  /** What to do, when it is not ok; or what the fact means. */
  readonly note: string | null
}
