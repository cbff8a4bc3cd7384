/** How an attempt ends. A closed set: `consume/settle.ts` has one branch for each. */
export type Outcome = 'done' | 'duplicate' | 'ignored' | 'stale' | 'retry' | 'dead' | 'expired' | 'released'

/** The outcomes that finish a delivery by running it. */
export type FinishedOutcome = 'done' | 'duplicate' | 'ignored' | 'stale'

/** The states of an identity: `open`, or how the delivery ended. */
export type IdentityState = 'open' | FinishedOutcome | 'replaced' | 'expired' | 'discarded'

/**
 * The states of an unfinished delivery, as they stand in the store.
 *
 *   ready      claimable, or leased while `owner` is set
 *   delayed    not due yet and not in the order of its key
 *   retry      failed, due later, keeps its place (a hole in its key)
 *   behind     waits for an earlier delivery of its key
 *   version    newer than the code that met it; waits for the deploy
 *   suspect    its owner died or was paused; runs when its process runs nothing else
 *   dead       a dead letter; its key's followers wait behind it
 *   passed     a dead letter that its followers may pass (`onDead: 'pass'`, or unblocked)
 */
export type DeliveryState = 'ready' | 'delayed' | 'retry' | 'behind' | 'version' | 'suspect' | 'dead' | 'passed'

/** Who can mend a failure: the producer's owner, the business's owner, or whoever runs the system. */
export type ErrorClass = 'format' | 'business' | 'system'

/** What is known of the effects of a dead letter's last attempt (its database part). */
export type CertaintyLabel = 'never started' | 'rolled back' | 'unknown'

/** A failure made safe for storage: texts are well-formed, free of U+0000 and cut to `limits.storedErrorBytes`. */
export interface StoredError {
  readonly class: ErrorClass
  readonly code: string
  readonly message: string
  readonly stack: string | null
}
