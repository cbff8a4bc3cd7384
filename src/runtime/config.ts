import type { Consumer } from '../consume/consumer.ts'
import { IchidoError } from '../contracts/errors.ts'
import { defaults, limits } from '../contracts/limits.ts'
import type { Log } from '../contracts/log.ts'
import type { CertaintyLabel, StoredError } from '../contracts/outcome.ts'
import type { AnyMessageDefinition } from '../contracts/schema.ts'
import type { SqlTx, Store } from '../contracts/store.ts'
import type { Transport } from '../contracts/transport.ts'
import type { RetryPolicy } from '../outcomes/backoff.ts'
import { routeOf } from './receiving.ts'

/** What the error tracker hears: every dead letter, whether by exhaustion, by a permanent error or by killing its process. */
export interface ErrorReport {
  readonly consumer: string
  readonly topic: string
  readonly id: string
  readonly attempt: number
  readonly label: CertaintyLabel
  readonly error: StoredError
  readonly build: string | null
}

export interface IchidoOptions<Tx extends SqlTx, Joined> {
  /** Where `send` writes. */
  readonly store: Store<Tx, Joined>
  readonly consumers?: readonly Consumer[]
  /** Messages that are only sent here; those of the consumers need no mention. The command line sends by these names. */
  readonly messages?: readonly AnyMessageDefinition[]
  /** Brokers by name. */
  readonly transports?: Readonly<Record<string, Transport>>
  /** Which topics come from which transport: a topic, or its beginning and a `*`. Topics without a route use the store's own queue. */
  readonly routes?: Readonly<Record<string, string>>
  /** Names the running build on dead letters. */
  readonly build?: string
  /** How old a process's beat may be before it is taken for dead. Default 30 s. */
  readonly leaseMs?: number
  readonly beatMs?: number
  /** How long the memory of finished deliveries is kept. Default 7 days. */
  readonly retentionMs?: number
  /** How long a message without a consumer is kept before it becomes a case. Default 30 days. */
  readonly keptMs?: number
  /** How often a message may kill its process while it runs alone. Default 3. */
  readonly maxDeaths?: number
  readonly shutdownMs?: number
  readonly pollMs?: number
  readonly log?: Log
  /** Called for every dead letter. What it throws is reported as an event and harms nothing. */
  readonly onError?: (report: ErrorReport) => void | Promise<void>
}

// biome-ignore lint/suspicious/noExplicitAny: the checks do not look at what a store hands out
type AnyOptions = IchidoOptions<any, any>

export interface IchidoConfig<Tx extends SqlTx = SqlTx, Joined = unknown> {
  readonly options: IchidoOptions<Tx, Joined>
  readonly store: Store<Tx, Joined>
  readonly consumers: readonly Consumer[]
  readonly messages: readonly AnyMessageDefinition[]
}

/** Puts a configuration together. What contradicts itself is refused here, all of it at once: INVALID_CONFIG. */
export function defineIchido<Tx extends SqlTx, Joined>(options: IchidoOptions<Tx, Joined>): IchidoConfig<Tx, Joined> {
  const consumers = options.consumers ?? []
  const faults = [
    ...checkOptions(options),
    ...consumers.flatMap(consumer => checkConsumer(consumer, options)),
    ...checkNames(consumers),
  ]
  const messages = [...new Set([...(options.messages ?? []), ...consumers.flatMap(consumer => consumer.messages)])]
  faults.push(...checkMessages(messages))
  if (faults.length > 0) {
    throw new IchidoError(
      'INVALID_CONFIG',
      `The configuration has ${faults.length} fault(s):\n${faults.map(fault => `  - ${fault}`).join('\n')}`,
    )
  }
  return { options, store: options.store, consumers, messages }
}

const knownOptions = [
  'store',
  'consumers',
  'messages',
  'transports',
  'routes',
  'build',
  'leaseMs',
  'beatMs',
  'retentionMs',
  'keptMs',
  'maxDeaths',
  'shutdownMs',
  'pollMs',
  'log',
  'onError',
]

function checkOptions(options: AnyOptions): string[] {
  const faults = Object.keys(options)
    .filter(name => !knownOptions.includes(name))
    .map(name => `unknown option ${JSON.stringify(name)}${suggestion(name, knownOptions)}`)
  if (typeof options.store?.transaction !== 'function')
    faults.push('store is missing: use sqlite(…), postgres(…) or memory()')
  for (const [pattern, name] of Object.entries(options.routes ?? {})) {
    if (!options.transports?.[name])
      faults.push(
        `the route ${JSON.stringify(pattern)} names the transport ${JSON.stringify(name)}, which is not there`,
      )
  }
  const positive = ['leaseMs', 'beatMs', 'retentionMs', 'keptMs', 'maxDeaths', 'shutdownMs', 'pollMs'] as const
  for (const name of positive) {
    const value = options[name]
    if (value !== undefined && !(Number.isFinite(value) && value > 0))
      faults.push(`${name} is ${value}: it must be more than 0`)
  }
  const leaseMs = options.leaseMs ?? defaults.leaseMs
  const beatMs = options.beatMs ?? defaults.beatMs
  if (beatMs * 3 > leaseMs)
    faults.push(`leaseMs ${leaseMs} must be at least three times beatMs ${beatMs}, or one late beat looks like a death`)
  return faults
}

function checkConsumer(consumer: Consumer, options: AnyOptions): string[] {
  const { name, messages } = consumer
  const faults: string[] = []
  const complain = (text: string) => faults.push(`consumer ${JSON.stringify(name)}: ${text}`)
  if (typeof name !== 'string' || !limits.name.test(name)) complain(`its name must match ${limits.name.source}`)
  if (!messages || messages.length === 0) complain('it lists no messages')
  if (typeof consumer.handle !== 'function') complain('it has no handle')
  if ((consumer.store as unknown) !== options.store)
    complain('its store differs from the sender’s: that needs a route over a broker')
  const types = (messages ?? []).map(message => message.type)
  for (const type of new Set(types)) {
    if (types.indexOf(type) !== types.lastIndexOf(type))
      complain(`it lists the type ${type} twice; keep the newest version and upcast the older ones`)
  }
  const { timeoutMs, batch, concurrency } = consumer
  if (timeoutMs !== undefined && !(timeoutMs > 0 && timeoutMs <= defaults.transactionMs)) {
    complain(`timeoutMs ${timeoutMs} must be between 1 and ${defaults.transactionMs}, the longest transaction`)
  }
  if (batch !== undefined && !(Number.isInteger(batch) && batch >= 1 && batch <= 1_000))
    complain(`batch ${batch} must be a whole number from 1 to 1000`)
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency >= 1))
    complain(`concurrency ${concurrency} must be 1 or more`)
  if (concurrency !== undefined && concurrency > 1 && consumer.store?.facts?.writers === 'one') {
    complain(
      `concurrency ${concurrency} does nothing on ${consumer.store.name}, which has one writer; do slow work in prepare`,
    )
  }
  for (const topic of new Set((messages ?? []).map(message => message.topic))) {
    const transport = options.transports?.[routeOf(options.routes ?? {}, topic) ?? '']
    if (transport?.facts.order === 'none' && consumer.order === 'by-key') {
      complain(`${transport.name} has no order by key for ${topic}: set order to 'none'`)
    }
  }
  faults.push(...checkRetry(consumer.retry).map(fault => `consumer ${JSON.stringify(name)}: ${fault}`))
  return faults
}

function checkRetry(given: Partial<RetryPolicy>): string[] {
  const { maxAttempts, baseMs, capMs } = { ...defaults.retry, ...given }
  const faults: string[] = []
  if (!(Number.isInteger(maxAttempts) && maxAttempts >= 1))
    faults.push(`retry.maxAttempts ${maxAttempts} must be 1 or more`)
  if (!(baseMs > 0)) faults.push(`retry.baseMs ${baseMs} must be more than 0`)
  if (!(capMs >= baseMs)) faults.push(`retry.capMs ${capMs} must be at least baseMs ${baseMs}`)
  if (given.capMs !== undefined && maxAttempts > 1 && baseMs * 2 ** (maxAttempts - 2) < capMs) {
    faults.push(
      `retry.capMs ${capMs} is never reached with ${maxAttempts} attempts from ${baseMs} ms: lower it or raise maxAttempts`,
    )
  }
  return faults
}

function checkNames(consumers: readonly Consumer[]): string[] {
  const names = consumers.map(consumer => consumer.name)
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))].map(
    name => `two consumers are called ${JSON.stringify(name)}: they would take each other’s messages`,
  )
}

function checkMessages(messages: readonly AnyMessageDefinition[]): string[] {
  const seen = new Map<string, AnyMessageDefinition>()
  const faults: string[] = []
  for (const message of messages) {
    const other = seen.get(message.type)
    if (other && other.version === message.version && other.topic === message.topic) {
      faults.push(`the message ${message.type} version ${message.version} is defined twice`)
    }
    seen.set(message.type, message)
  }
  return faults
}

/** " (did you mean …?)" for the nearest known name, or nothing. */
export function suggestion(name: string, known: readonly string[]): string {
  const nearest = known
    .map(other => ({ other, distance: editDistance(name, other) }))
    .sort((a, b) => a.distance - b.distance)[0]
  return nearest && nearest.distance <= Math.max(2, name.length / 3)
    ? ` (did you mean ${JSON.stringify(nearest.other)}?)`
    : ''
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const current = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      current[j] = Math.min(change, (previous[j] as number) + 1, (current[j - 1] as number) + 1)
    }
    previous = current
  }
  return previous[b.length] as number
}
