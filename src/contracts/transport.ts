import type { Headers } from './message.ts'

/** A message as a transport carries it. Everything but `body` comes from headers, so that it can be read before the body is touched. */
export interface Envelope {
  /** Null when the foreign producer gave none. */
  readonly id: string | null
  readonly topic: string
  readonly type: string | null
  /** A foreign message without a version is version 1. */
  readonly version: number | null
  readonly key: string | null
  readonly headers: Headers
  /** First send, milliseconds since 1970. Null when unknown: then only an explicit opt-out lets it run. */
  readonly sentAt: number | null
  /** When a delayed message became due; part of the age that retention judges. */
  readonly dueAt: number | null
  readonly body: Uint8Array
}

/** One copy of a message, handed out by a receiver and not acked yet. */
export interface Copy extends Envelope {
  /** The handler may have been started for this delivery before: by another owner, or before a lost ack. */
  readonly maybeStarted: boolean
  /** Resolves when the transport has forgotten the copy. An ack on a receiver that lost ownership is dropped silently by the broker. */
  ack(): Promise<void>
  /** Lengthens the transport's own lease, where it has one. */
  renew?(leaseMs: number): Promise<void>
}

/** A pulled subscription. Closing it returns every unacked copy, in order, to the next owner. */
export interface Receiver {
  /** Up to `max` copies in order; resolves empty when `signal` aborts. */
  receive(max: number, signal: AbortSignal): Promise<Copy[]>
  close(): Promise<void>
}

/** Facts that the runtime checks against what consumers ask for. */
export interface TransportFacts {
  /**
   * `contiguous`: per key a receiver sees a run without gaps that starts at or before the first unsettled message, and a new owner
   * starts there again. Only then can a consumer have order by key.
   */
  readonly order: 'contiguous' | 'none'
  readonly largestBodyBytes: number
  readonly longestLeaseMs: number
}

/** A broker or a directory. It only moves bytes. */
export interface Transport {
  readonly name: string
  readonly facts: TransportFacts
  /** Resolves when every message is durable and routed; rejects with `retryable` set otherwise. */
  publish(messages: readonly Envelope[]): Promise<void>
  subscribe(topic: string, consumer: string): Promise<Receiver>
  close(): Promise<void>
}
