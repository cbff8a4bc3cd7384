/** The defaults and limits of ichido, in one place; `ichido doctor` prints them. Units stand last in each name. */
export const defaults = {
  retry: { maxAttempts: 20, baseMs: 1_000, capMs: 600_000 },
  timeoutMs: 30_000,
  leaseMs: 30_000,
  beatMs: 5_000,
  transactionMs: 60_000,
  maxDeaths: 3,
  batch: 100,
  retentionMs: 7 * 86_400_000,
  retentionMarginMs: 60_000,
  keptMs: 30 * 86_400_000,
  shutdownMs: 25_000,
  pollMs: 1_000,
} as const

export const limits = {
  bodyBytes: 256 * 1024,
  headerCount: 64,
  headerBytes: 16 * 1024,
  /** Ids and keys: 1–255 bytes of UTF-8 without control characters, compared bytewise. */
  idBytes: 255,
  jsonDepth: 64,
  storedErrorBytes: 8 * 1024,
  /** What a worker may hold claimed but not settled, over all consumers of the process. */
  claimedBytes: 32 * 1024 * 1024,
  /** Names of consumers, topics and message types. */
  name: /^[a-z0-9][a-z0-9._-]{0,99}$/,
} as const
