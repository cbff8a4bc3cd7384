import type { Clock, Timer } from '../contracts/clock.ts'

// The one place in ichido that reads the time or makes a random number. Everything else is handed a `Clock`.

/** Node fires a longer timer at once; such a delay is walked in steps. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

class SystemTimer implements Timer {
  #handle: NodeJS.Timeout | undefined

  start(delayMs: number, run: () => void, background: boolean): void {
    const step = Math.min(Math.max(delayMs, 0), LONGEST_TIMEOUT_MS)
    const rest = delayMs - step
    this.#handle = setTimeout(() => (rest > 0 ? this.start(rest, run, background) : run()), step)
    if (background) this.#handle.unref()
  }

  cancel(): void {
    clearTimeout(this.#handle)
  }
}

function after(delayMs: number, run: () => void, background = false): Timer {
  const timer = new SystemTimer()
  timer.start(delayMs, run, background)
  return timer
}

function sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
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
    const timer = after(delayMs, wake)
    signal?.addEventListener('abort', wake, { once: true })
  })
}

/** The clock of the machine. */
export const systemClock: Clock = {
  virtual: false,
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after,
  sleep,
  random: () => Math.random(),
}
