/** How often and how far apart a delivery is tried again. */
export interface RetryPolicy {
  /** Runs in all, the first one included. */
  readonly maxAttempts: number
  readonly baseMs: number
  readonly capMs: number
}

/** Exponential backoff with full jitter: anywhere between 1 ms and the smaller of the cap and base × 2^(attempt − 1). */
export function backoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  const ceiling = Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1))
  return Math.max(1, Math.round(ceiling * random))
}

/** The longest that all retries together can wait. */
export function longestRetryMs(policy: RetryPolicy): number {
  let sum = 0
  for (let attempt = 1; attempt < policy.maxAttempts; attempt++) sum += backoffMs(policy, attempt, 1)
  return sum
}
