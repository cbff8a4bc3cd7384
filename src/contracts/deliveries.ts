import type { Acceptance, OutgoingMessage } from './message.ts'
import type { CertaintyLabel, DeliveryState, FinishedOutcome, StoredError } from './outcome.ts'
import type { Envelope } from './transport.ts'

/** SQLite answers at once, servers answer later; callers await either. */
export type Awaitable<T> = T | PromiseLike<T>

/** One consumer's copy of one message, as a claim hands it out. Times are milliseconds since 1970 on the store's clock. */
export interface Delivery {
  /** The row's number in this store; `identity.delivery_id` is the same number. */
  readonly ref: number
  readonly consumer: string
  readonly topic: string
  readonly id: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  readonly pos: number
  /** JSON text. */
  readonly headers: string
  readonly body: Uint8Array
  readonly sentAt: number
  /** When this attempt was planned (retry, delay), or null for one that ran as soon as it could. */
  readonly plannedAt: number | null
  readonly claimedAt: number
  /** 1 for the first run of this cycle; already counted in the store. */
  readonly attempt: number
  readonly deaths: number
  /** Grows with each redrive. */
  readonly cycle: number
  /** It runs alone in its process, because its last owner died. */
  readonly suspect: boolean
  /** It was waiting before, so followers of its key may be marked `behind`: its end must release them. */
  readonly held: boolean
  /** The message whose place this one takes; if that one is done, this one is a duplicate. */
  readonly replaces: string | null
}

export interface ClaimRequest {
  readonly consumer: string
  /** Incarnation of the claiming process. A process that was declared lost gets nothing. */
  readonly owner: string
  /** 1–1000. Stores round it up to one of a few literal limits, and cut the result. */
  readonly max: number
  /** Stop taking rows when their bodies sum up to more than this (always at least one row). */
  readonly maxBytes: number
}

export interface Claim {
  /** In order of `pos`. All carry the same epoch. */
  readonly deliveries: readonly Delivery[]
  /** Grows with every claim; fences older claims, and is the token of what it finishes. */
  readonly epoch: number
  /** When nothing was claimed: milliseconds until the next delayed or retrying delivery is due, or null. */
  readonly nextDueInMs: number | null
}

export interface Finished {
  readonly delivery: Delivery
  readonly outcome: FinishedOutcome
  readonly durationMs: number
}

/** What becomes of a delivery whose attempt did not finish it. */
export interface Deferral {
  readonly delivery: Delivery
  /** `released`: given back, its attempt is not counted. `version`: waits for newer code, not counted. */
  readonly to: 'retry' | 'dead' | 'version' | 'released'
  /** For `retry`: due this long after the store's now. */
  readonly delayMs: number
  /** For `dead`: `pass` lets the followers of its key go on. */
  readonly onDead: 'block' | 'pass'
  readonly label: CertaintyLabel
  readonly error: StoredError | null
  readonly durationMs: number
}

/** How a copy from a transport is put into the store's custody. */
export interface CustodyEntry {
  readonly copy: Identified
  /** `ready`: waits for its turn behind an unfinished delivery of its key. */
  readonly to: 'ready' | 'retry' | 'dead' | 'suspect' | 'version'
  readonly delayMs: number
  readonly onDead: 'block' | 'pass'
  readonly label: CertaintyLabel
  readonly error: StoredError | null
  /** 1 when the handler has run, 0 when it has not. */
  readonly attempts: number
  readonly durationMs: number
}

/** A copy whose identity could be read. */
export interface Identified extends Envelope {
  readonly id: string
  readonly type: string
  readonly version: number
  /** Headers as JSON text. */
  readonly headersText: string
  readonly hash: Uint8Array
}

/**
 * What an insert of an identity decided.
 *
 *   run          the identity is ours; run the handler (only from `admit`)
 *   stored       the store has it now, unfinished: ack
 *   duplicate    known, same contents: ack, do nothing else
 *   reused       known with other contents: it became a dead letter under `<id>~<16 hex digits of its hash>`: ack after commit
 *   unprovable   older than the store's memory: it became a dead letter: ack after commit
 */
export type Verdict = 'run' | 'stored' | 'duplicate' | 'reused' | 'unprovable'

export interface CopyOrigin {
  readonly consumer: string
  readonly topic: string
  readonly onDead: 'block' | 'pass'
  /** Consumers with order by key: a copy behind an unfinished delivery of its key is stored instead of run. */
  readonly keyed: boolean
  /** Added to the watermark before the age is compared, for clocks that differ. */
  readonly marginMs: number
  /** Copies without `sentAt` may run although their age cannot be judged. */
  readonly acceptUnknownAge: boolean
}

/** How a delivery whose COMMIT had no answer really ended. */
export type Resolution = 'committed' | 'mine' | 'gone'

/**
 * The role of a session that owns `identity`, `delivery`, `attempt` and `kept`. Every method belongs to the session's transaction.
 * Lock order: keys, sorted → delivery rows, sorted → the user's rows → sends → counters.
 */
export interface Deliveries {
  /**
   * Fans messages out to the subscriptions of their topics, in the order given. Throws ID_REUSED, with nothing written, when a known
   * id comes with another hash.
   */
  accept(messages: readonly OutgoingMessage[]): Awaitable<Acceptance[]>

  /** Claims inside this transaction (stores with `facts.chainsClaims`), so that one commit settles a batch and claims the next. */
  claim(request: ClaimRequest): Awaitable<Claim>

  /** Locks the rows that still carry the epoch, sorted, and returns how many they are. The first statement of a business transaction. */
  lock(deliveries: readonly Delivery[], epoch: number): Awaitable<number>

  /**
   * Ends deliveries: identity to its end with `epoch` as token, delivery deleted where the epoch is still mine, followers of held keys
   * released, an attempt row for those that did not end at the first try, counters. Throws FENCED when a row was not mine any more:
   * the caller rolls back.
   */
  finish(finished: readonly Finished[], epoch: number): Awaitable<void>

  /**
   * Puts deliveries back that did not finish. Rows that no longer carry the epoch are left alone. Returns the refs that were changed.
   * A dead letter opens a case, and gives its place to a waiting message that replaces it.
   */
  defer(deferrals: readonly Deferral[], epoch: number): Awaitable<ReadonlySet<number>>

  /**
   * After a lost COMMIT answer: locks the identities (which waits for the old transaction), then tells: finished with my epoch as token =
   * `committed`; open and the delivery carries my epoch = `mine`; else `gone`.
   */
  resolve(deliveries: readonly Delivery[], epoch: number): Awaitable<Resolution[]>

  /** True when a delivery with this id of the same consumer and topic is finished as done (see `Delivery.replaces`). */
  isDone(consumer: string, topic: string, id: string): Awaitable<boolean>

  /**
   * First attempts of a transport's copies: locks their keys, inserts their identities as done with `token`, sorted. A verdict for each,
   * in the order given. Those to `run` are ended by `conclude`, or undone by a rollback.
   */
  admit(origin: CopyOrigin, copies: readonly Identified[], token: number): Awaitable<Verdict[]>

  /** Corrects the end of admitted copies that were not `done`, and counts all of them. */
  conclude(
    origin: CopyOrigin,
    copies: readonly { readonly copy: Identified; readonly outcome: FinishedOutcome }[],
  ): Awaitable<void>

  /** Puts copies into the store in a transaction of its own, which must be committed before the copies are acked. */
  takeCustody(origin: CopyOrigin, entries: readonly CustodyEntry[], build: string | null): Awaitable<Verdict[]>

  /** Stores what has no usable identity as a dead letter under `raw~<sha256 of headers and bytes>`; a repeat raises its counter. */
  takeUnreadable(
    origin: CopyOrigin,
    copies: readonly { readonly copy: Envelope; readonly rawId: string; readonly error: StoredError }[],
  ): Awaitable<void>

  /** A fresh number of the epoch sequence, for the token of transport attempts. */
  nextEpoch(): Awaitable<number>
}

/** Unfinished deliveries of a consumer that wait for something, by state. */
export type WaitingCounts = Readonly<Partial<Record<DeliveryState, number>>>
