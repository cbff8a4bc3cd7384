/** A cancellable timer. Cancelling twice, or after it fired, does nothing. */
export interface Timer {
  cancel(): void
}

/**
 * Time and chance, handed in so that nothing in ichido reads them by itself. The system clock is in `runtime/clock.ts`,
 * the fake one in `ichido/testing`.
 */
export interface Clock {
  /** True for a clock that does not follow the wall: stores then pass `now()` into their SQL instead of using the server's clock. */
  readonly virtual: boolean
  /** Wall time, milliseconds since 1970. May jump. */
  now(): number
  /** Milliseconds that never go backwards; only differences mean something. */
  monotonic(): number
  /** Calls `run` once after `delayMs`. The timer does not keep the process alive when `background` is true. */
  after(delayMs: number, run: () => void, background?: boolean): Timer
  /** Resolves after `delayMs`, or at once when `signal` aborts; it never rejects. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>
  /** A number in [0, 1). */
  random(): number
}
