import type { Clock } from '../contracts/clock.ts'

/** Lanes of one consumer that wait for work. A ring wakes one of them, and is remembered when nobody waits. */
export class Bell {
  readonly #clock: Clock
  readonly #sleepers: Array<() => void> = []
  #rung = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  ring(): void {
    const wake = this.#sleepers.shift()
    if (wake) wake()
    else this.#rung = true
  }

  ringAll(): void {
    for (const wake of this.#sleepers.splice(0)) wake()
    this.#rung = true
  }

  /** Resolves at a ring, or after `longestMs` when it is given. */
  async wait(longestMs: number | null): Promise<void> {
    if (this.#rung) {
      this.#rung = false
      return
    }
    await new Promise<void>(resolve => {
      const wake = () => {
        timer?.cancel()
        resolve()
      }
      const timer =
        longestMs === null
          ? null
          : this.#clock.after(longestMs, () => {
              const index = this.#sleepers.indexOf(wake)
              if (index >= 0) this.#sleepers.splice(index, 1)
              resolve()
            })
      this.#sleepers.push(wake)
    })
  }
}
