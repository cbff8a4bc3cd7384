import type { Awaitable } from './deliveries.ts'
import type { CertaintyLabel, ErrorClass, IdentityState } from './outcome.ts'

/** Names one delivery. */
export interface DeliveryName {
  readonly consumer: string
  readonly topic: string
  readonly id: string
}

/** A dead letter, without its body. Times are milliseconds since 1970. */
export interface DeadLetter extends DeliveryName {
  /** The row's number, for `DeadLetterQuery.after`. */
  readonly ref: number
  readonly type: string
  readonly version: number
  readonly key: string | null
  /** `passed`: its key's followers go on without it. `kept`: a message without consumer whose time ran out. */
  readonly state: 'dead' | 'passed' | 'kept'
  readonly class: ErrorClass
  readonly code: string
  readonly message: string
  readonly stack: string | null
  readonly label: CertaintyLabel
  readonly build: string | null
  readonly attempts: number
  readonly deaths: number
  readonly cycle: number
  /** How often the same unreadable bytes, or the same id, came again while it was dead. */
  readonly repeats: number
  readonly sentAt: number
  readonly openedAt: number
  /** How many deliveries of its key wait behind it. */
  readonly followers: number
  readonly bodyBytes: number
}

export interface DeadLetterQuery {
  readonly consumer?: string
  readonly id?: string
  readonly code?: string
  /** 1–10,000. */
  readonly limit: number
  /** Continue after this one (keyset, newest last). */
  readonly after?: { readonly openedAt: number; readonly ref: number }
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[]
  /** Exact, whatever the limit was. */
  readonly total: number
}

export interface Payload {
  readonly headers: string
  readonly body: Uint8Array
}

/** Who changes something by hand, and why; written to the audit in the same transaction. */
export interface Actor {
  readonly actor: string
  readonly reason: string
}

export interface EditedMessage {
  /** A new id; the old one is closed as `replaced`. */
  readonly id: string
  readonly type: string
  readonly version: number
  readonly body: Uint8Array
  readonly hash: Uint8Array
}

/**
 * The role of a session that changes dead letters by hand. Each method is a compare-and-set: it throws NOT_FOUND when there is no such
 * delivery and CONFLICT when it is no longer dead, and writes one audit row.
 */
export interface Cases {
  /**
   * Ready again with attempts 0 and the next cycle. Under `block` it keeps its place; one that was passed goes to the end of the order.
   * Refused (CONFLICT) for what can never run: reused ids, unreadable bytes.
   */
  redrive(name: DeliveryName, by: Actor): Awaitable<void>
  /** Closed for good; its followers go on. A kept message whose time ran out (consumer `''`) is deleted. */
  discard(name: DeliveryName, by: Actor): Awaitable<void>
  /** The old delivery ends as `replaced` and the edited one takes its place, in this transaction, for this consumer only. */
  edit(name: DeliveryName, edited: EditedMessage, by: Actor): Awaitable<void>
  /** The dead letter stays, its key's followers go on. */
  unblock(name: DeliveryName, by: Actor): Awaitable<void>
}

/** One line of `ichido trace`. */
export interface TraceAttempt {
  readonly cycle: number
  readonly attempt: number
  readonly plannedAt: number | null
  readonly startedAt: number | null
  readonly endedAt: number
  readonly outcome: string
  readonly code: string | null
  readonly message: string | null
  readonly build: string | null
}

/** What the store knows of one delivery. */
export interface Trace extends DeliveryName {
  /** `kept`: nobody consumes its topic yet; the consumer is `''` then, and `acceptedAt` is when it was sent. */
  readonly state: IdentityState | 'kept'
  /** How it waits while it is open: a delivery state, `in progress`, or null when it ended. */
  readonly waiting: string | null
  readonly acceptedAt: number
  readonly finishedAt: number | null
  readonly attempts: number
  readonly deaths: number
  readonly cycle: number
  readonly dueAt: number | null
  /** The history: attempts that did not end done at the first try. A first success stands in `finishedAt` alone. */
  readonly history: readonly TraceAttempt[]
}
