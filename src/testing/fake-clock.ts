import { MessageChannel } from 'node:worker_threads'
import type { Clock, Timer } from '../contracts/clock.ts'

export interface FakeClockOptions {
  /** Wall time at the start, milliseconds since 1970. */
  readonly startAt?: number
  /** Seeds `random()`. */
  readonly seed?: number
}

interface PlannedTimer {
  readonly dueAt: number
  readonly order: number
  readonly run: () => void
}

/** 2026-01-01T00:00:00Z: far from 0, so that a time taken for a duration shows. */
const DEFAULT_START = 1_767_225_600_000

/**
 * A clock that stands still until it is told to move, so that a test of hours takes milliseconds. Timers run inside `advance`, in the
 * order in which they are due; between two of them promises settle, so that a loop that sleeps again is seen.
 */
export class FakeClock implements Clock {
  readonly virtual = true
  #elapsed = 0
  #wallOffset: number
  #order = 0
  #seed: number
  readonly #timers = new Set<PlannedTimer>()

  constructor(options: FakeClockOptions = {}) {
    this.#wallOffset = options.startAt ?? DEFAULT_START
    this.#seed = options.seed ?? 1
  }

  now(): number {
    return this.#wallOffset + this.#elapsed
  }

  monotonic(): number {
    return this.#elapsed
  }

  after(delayMs: number, run: () => void, _background?: boolean): Timer {
    const timer = { dueAt: this.#elapsed + Math.max(0, delayMs), order: this.#order++, run }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal?.aborted) {
        resolve()
        return
      }
      const wake = () => {
        timer.cancel()
        signal?.removeEventListener('abort', wake)
        resolve()
      }
      const timer = this.after(delayMs, wake)
      signal?.addEventListener('abort', wake, { once: true })
    })
  }

  /** The same numbers for the same seed (mulberry32). */
  random(): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** How many timers wait. */
  get pending(): number {
    return this.#timers.size
  }

  /** Moves both the wall and the monotonic clock, and runs what becomes due on the way, also timers that are set meanwhile. */
  async advance(ms: number): Promise<void> {
    const end = this.#elapsed + ms
    await settle()
    for (let next = this.#nextUntil(end); next; next = this.#nextUntil(end)) {
      this.#elapsed = Math.max(this.#elapsed, next.dueAt)
      this.#timers.delete(next)
      next.run()
      await settle()
    }
    this.#elapsed = end
  }

  /** Moves the wall only, forwards or backwards, as an operator or NTP does. No timer runs. */
  jump(ms: number): void {
    this.#wallOffset += ms
  }

  #nextUntil(end: number): PlannedTimer | undefined {
    let first: PlannedTimer | undefined
    for (const timer of this.#timers) {
      if (timer.dueAt > end) continue
      if (!first || timer.dueAt < first.dueAt || (timer.dueAt === first.dueAt && timer.order < first.order))
        first = timer
    }
    return first
  }
}

/** A turn of the event loop: everything that is already resolved runs, chains of promises included. */
function settle(): Promise<void> {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel()
    port1.once('message', () => {
      port1.close()
      resolve()
    })
    port2.postMessage(null)
  })
}
