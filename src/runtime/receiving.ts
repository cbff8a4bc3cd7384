import { runCopies } from '../consume/copies.ts'
import type { RunningConsumer } from '../consume/running.ts'
import type { CopyOrigin } from '../contracts/deliveries.ts'
import { defaults } from '../contracts/limits.ts'
import type { Receiver, Transport } from '../contracts/transport.ts'
import { toStoredError } from '../outcomes/stored-error.ts'
import { findBadName, hashContents } from '../send/identity.ts'
import type { Gate } from './gate.ts'

const how = { hash: hashContents, findBadName }

/** The transport of a topic: the first route whose pattern fits, exact or with a `*` at its end. */
export function routeOf(routes: Readonly<Record<string, string>>, topic: string): string | null {
  const fits = (pattern: string) => (pattern.endsWith('*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern)
  return Object.entries(routes).find(([pattern]) => fits(pattern))?.[1] ?? null
}

/**
 * What one consumer receives of one topic from a transport. One batch at a time and in order: within a process one key is one lane. When a batch
 * could not be brought to its end, or the transport fails, the receiver is closed, which gives back what is not acked, and opened again.
 */
export class Receiving {
  readonly #running: RunningConsumer
  readonly #transport: Transport
  readonly #origin: CopyOrigin
  readonly #gate: Gate
  readonly #stop = new AbortController()
  #loop: Promise<void> | null = null

  constructor(running: RunningConsumer, transport: Transport, topic: string, gate: Gate) {
    this.#running = running
    this.#transport = transport
    this.#gate = gate
    const { name: consumer, onDead, order } = running.consumer
    const keyed = order === 'by-key'
    this.#origin = { consumer, topic, onDead, keyed, marginMs: defaults.retentionMarginMs, acceptUnknownAge: false }
  }

  start(): void {
    this.#loop = this.#run()
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { clock, emit, consumer } = this.#running
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      try {
        await this.#receive(() => {
          failures = 0
        })
      } catch (error) {
        failures++
        const { message } = toStoredError(error, 'system', 'TRANSPORT_UNAVAILABLE')
        emit('degraded', { part: `transport of ${consumer.name}`, code: 'TRANSPORT_UNAVAILABLE', message })
      }
      if (this.#stop.signal.aborted) return
      const longestMs = Math.min(5_000, 20 * 2 ** failures)
      await clock.sleep(longestMs * (0.5 + clock.random() / 2), this.#stop.signal)
    }
  }

  async #receive(onProgress: () => void): Promise<void> {
    const receiver: Receiver = await this.#transport.subscribe(this.#origin.topic, this.#origin.consumer)
    try {
      while (!this.#stop.signal.aborted) {
        const copies = await receiver.receive(defaults.batch, this.#stop.signal)
        if (copies.length === 0) continue
        if (!(await this.#gate.share(() => runCopies(this.#running, this.#origin, copies, how)))) return
        onProgress()
      }
    } finally {
      await receiver.close()
    }
  }
}
