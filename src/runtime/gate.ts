/**
 * Batches share the process; a suspect has it to itself. Whoever wants to be alone is let in before new sharers, and waits until those
 * inside have left.
 */
export class Gate {
  #sharers = 0
  #alone = false
  #wanted = 0
  #waiting: Array<() => void> = []

  /** Somebody is alone, or waits to be: start nothing new, chain nothing. */
  get closed(): boolean {
    return this.#alone || this.#wanted > 0
  }

  async share<T>(work: () => Promise<T>): Promise<T> {
    while (this.closed) await this.#change()
    this.#sharers++
    try {
      return await work()
    } finally {
      this.#sharers--
      this.#wake()
    }
  }

  async alone<T>(work: () => Promise<T>): Promise<T> {
    this.#wanted++
    while (this.#alone || this.#sharers > 0) await this.#change()
    this.#wanted--
    this.#alone = true
    try {
      return await work()
    } finally {
      this.#alone = false
      this.#wake()
    }
  }

  #change(): Promise<void> {
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
