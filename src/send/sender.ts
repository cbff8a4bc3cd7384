import type { Awaitable } from '../contracts/deliveries.ts'
import { isIchidoError } from '../contracts/errors.ts'
import type { Acceptance, OutgoingMessage } from '../contracts/message.ts'

const MAX_MESSAGES = 1_000
const MAX_BYTES = 4 * 1024 * 1024

interface Pending {
  readonly message: OutgoingMessage
  readonly madeHere: boolean
  readonly resolve: (acceptance: Acceptance) => void
  readonly reject: (error: unknown) => void
}

/**
 * Sends that come one by one share a commit: while one transaction is on its way, the next collects what arrives. One flush runs at a
 * time, so the order of a key is the order of the calls.
 */
export class Sender {
  readonly #write: (messages: readonly OutgoingMessage[]) => Awaitable<Acceptance[]>
  #pending: Pending[] = []
  #flushing: Promise<void> | null = null

  constructor(write: (messages: readonly OutgoingMessage[]) => Awaitable<Acceptance[]>) {
    this.#write = write
  }

  /** `madeHere`: the id is new, so a repeat after an unclear COMMIT cannot be anybody else's message. */
  send(message: OutgoingMessage, madeHere: boolean): Promise<Acceptance> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ message, madeHere, resolve, reject })
      this.#flushing ??= this.#flush()
    })
  }

  /** Resolves when everything handed in so far has been answered. */
  async settled(): Promise<void> {
    await this.#flushing
  }

  async #flush(): Promise<void> {
    await null
    while (this.#pending.length > 0) await this.#writeAll(this.#take())
    this.#flushing = null
  }

  #take(): Pending[] {
    let bytes = 0
    let count = 0
    while (count < this.#pending.length && count < MAX_MESSAGES && bytes < MAX_BYTES) {
      bytes += (this.#pending[count] as Pending).message.body.length
      count++
    }
    const batch = this.#pending.slice(0, count)
    this.#pending = this.#pending.slice(count)
    return batch
  }

  async #writeAll(batch: readonly Pending[], again = false): Promise<void> {
    try {
      const acceptances = await this.#write(batch.map(pending => pending.message))
      for (const [index, pending] of batch.entries()) {
        const acceptance = acceptances[index] as Acceptance
        pending.resolve(again && pending.madeHere ? { ...acceptance, duplicate: false } : acceptance)
      }
    } catch (error) {
      // The ids make the repeat harmless: what the lost COMMIT wrote is met again as a duplicate.
      if (isIchidoError(error, 'COMMIT_UNKNOWN') && !again) return this.#writeAll(batch, true)
      if (!isIchidoError(error, 'ID_REUSED') || batch.length === 1) {
        for (const pending of batch) pending.reject(error)
        return
      }
      // One message is at fault; the others must not suffer for it.
      const half = batch.length >> 1
      await this.#writeAll(batch.slice(0, half), again)
      await this.#writeAll(batch.slice(half), again)
    }
  }
}
