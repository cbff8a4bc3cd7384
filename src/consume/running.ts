import { createHash } from 'node:crypto'
import type { Clock } from '../contracts/clock.ts'
import type { Awaitable } from '../contracts/deliveries.ts'
import type { EventName, Events } from '../contracts/events.ts'
import type { Log } from '../contracts/log.ts'
import type { OutgoingMessage, SendOptions } from '../contracts/message.ts'
import type { AnyMessageDefinition } from '../contracts/schema.ts'
import type { StepHook } from '../contracts/steps.ts'
import type { Store } from '../contracts/store.ts'
import type { FailurePolicy } from '../outcomes/decide.ts'
import type { Consumer } from './consumer.ts'

/** A consumer at work: its definition, and all that its steps need from the outside. */
export interface RunningConsumer {
  readonly consumer: Consumer
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  readonly definitions: ReadonlyMap<string, AnyMessageDefinition>
  readonly failures: FailurePolicy
  readonly timeoutMs: number
  readonly build: string | null
  /** Aborts when the process is to stop and its deadline is over. */
  readonly signal: AbortSignal
  readonly encode: (
    definition: AnyMessageDefinition,
    input: unknown,
    options: SendOptions,
  ) => Awaitable<OutgoingMessage>
  readonly emit: <Name extends EventName>(name: Name, event: Events[Name]) => void
  readonly onStep: StepHook | undefined
}

/** The part of a delivery, or of a transport's copy, that the handler's side needs. */
export interface Subject {
  readonly topic: string
  readonly id: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  /** JSON text. */
  readonly headers: string
  readonly body: Uint8Array
  readonly sentAt: number
  readonly attempt: number
}

// The namespace of ichido's idempotency keys, a random UUID fixed for ever.
const namespace = Buffer.from('5b1f6d0c7a3e4c5f9a2d8e4f1c0b7a66', 'hex')

/** UUIDv5 (RFC 9562) of consumer, topic and id. */
export function idempotencyKey(consumer: string, topic: string, id: string): string {
  const bytes = createHash('sha1').update(namespace).update(`${consumer}\n${topic}\n${id}`).digest().subarray(0, 16)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x50
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
