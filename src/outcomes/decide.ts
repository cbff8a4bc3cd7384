import type { Deferral, Delivery } from '../contracts/deliveries.ts'
import type { CertaintyLabel, StoredError } from '../contracts/outcome.ts'
import { backoffMs, type RetryPolicy } from './backoff.ts'
import { type Classifier, classify } from './classify.ts'
import { toStoredError } from './stored-error.ts'

export interface FailurePolicy {
  readonly retry: RetryPolicy
  readonly onDead: 'block' | 'pass'
  readonly classify?: Classifier | undefined
  /** In [0, 1). */
  readonly random: () => number
}

/** What a failed attempt leads to, before it is bound to a delivery or a transport's copy. */
export interface Decision {
  readonly to: 'retry' | 'dead'
  readonly delayMs: number
  readonly error: StoredError
  /** Dead because the retries are used up, not because the error is permanent. */
  readonly exhausted: boolean
}

/** Permanent → dead at once. Transient → later, until the attempts are used up. */
export function decide(policy: FailurePolicy, error: unknown, attempt: number): Decision {
  const verdict = classify(error, policy.classify)
  const stored = toStoredError(error, verdict.class, verdict.code)
  if (verdict.kind === 'permanent') return { to: 'dead', delayMs: 0, error: stored, exhausted: false }
  if (attempt >= policy.retry.maxAttempts) return { to: 'dead', delayMs: 0, error: stored, exhausted: true }
  const jittered = backoffMs(policy.retry, attempt, policy.random())
  return { to: 'retry', delayMs: Math.max(jittered, verdict.retryAfterMs ?? 0), error: stored, exhausted: false }
}

/** The deferral of a delivery whose attempt failed. */
export function failed(
  policy: FailurePolicy,
  delivery: Delivery,
  error: unknown,
  label: CertaintyLabel,
  durationMs: number,
): Deferral {
  const decision = decide(policy, error, delivery.attempt)
  return {
    delivery,
    to: decision.to,
    delayMs: decision.delayMs,
    onDead: policy.onDead,
    label,
    error: decision.error,
    durationMs,
  }
}

/** A delivery given back without a charge: it was not at fault, or never started. */
export function released(delivery: Delivery): Deferral {
  return { delivery, to: 'released', delayMs: 0, onDead: 'block', label: 'never started', error: null, durationMs: 0 }
}

/** A delivery whose message is newer than this code. */
export function waitingForVersion(delivery: Delivery): Deferral {
  return { ...released(delivery), to: 'version' }
}

/** A delivery that can never run as it is. */
export function deadLetter(delivery: Delivery, error: StoredError, onDead: 'block' | 'pass'): Deferral {
  return { delivery, to: 'dead', delayMs: 0, onDead, label: 'never started', error, durationMs: 0 }
}
