import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Clock } from '../contracts/clock.ts'
import type { Awaitable } from '../contracts/deliveries.ts'
import { IchidoError } from '../contracts/errors.ts'
import type { EventName, Events } from '../contracts/events.ts'
import { defaults } from '../contracts/limits.ts'
import type { Acceptance, OutgoingMessage, SendOptions } from '../contracts/message.ts'
import type { AnyMessageDefinition, InputOf, SendInTransaction } from '../contracts/schema.ts'
import type { StepHook } from '../contracts/steps.ts'
import type { Heartbeat, Reaped, SqlTx, Store } from '../contracts/store.ts'
import { encodeMessage } from '../send/encode.ts'
import { Sender } from '../send/sender.ts'
import { createUuidFactory } from '../send/uuid.ts'
import type { ErrorReport, IchidoConfig } from './config.ts'
import { createWork, knownVersions, subscriptionsOf } from './consumers.ts'
import { Emitter } from './emitter.ts'
import { Gate } from './gate.ts'
import type { Lanes } from './lanes.ts'
import { MaintenanceLoop } from './maintenance.ts'
import { type Receiving, routeOf } from './receiving.ts'

export interface Surroundings {
  readonly clock: Clock
  readonly incarnation: string
  readonly consume?: boolean | readonly string[]
  readonly onStep?: StepHook
}

/** What a send tells. `kept`: nobody consumes the topic yet, and the message waits for the first who does. */
export interface SendResult {
  readonly id: string
  readonly duplicate: boolean
  readonly kept: boolean
}

export interface OwnTransaction<Tx> {
  readonly tx: Tx
  readonly send: SendInTransaction
}

/** A running ichido: sends, consumes, or both. Made by `start`. */
export class Ichido<Tx extends SqlTx = SqlTx, Joined = unknown> implements AsyncDisposable {
  readonly store: Store<Tx, Joined>
  readonly #config: IchidoConfig<Tx, Joined>
  readonly #surroundings: Surroundings
  readonly #emitter = new Emitter()
  readonly #gate = new Gate()
  readonly #giveUp = new AbortController()
  readonly #newId: () => string
  readonly #sender: Sender
  #incarnation: string
  #lanes: readonly Lanes[] = []
  #receiving: readonly Receiving[] = []
  #maintenance: MaintenanceLoop | null = null
  #heartbeat: Heartbeat | null = null
  #unlisten: (() => void) | null = null
  #stopping: Promise<void> | null = null
  #closed = false

  constructor(config: IchidoConfig<Tx, Joined>, surroundings: Surroundings) {
    this.#config = config
    this.#surroundings = surroundings
    this.#incarnation = surroundings.incarnation
    this.store = config.store
    this.#newId = createUuidFactory(() => surroundings.clock.now())
    this.#sender = new Sender(messages => this.store.transaction(session => session.deliveries.accept(messages)))
    if (config.options.onError) this.#reportTo(config.options.onError)
  }

  /** Called by `start`. */
  async open(): Promise<void> {
    const { store } = this
    const { clock } = this.#surroundings
    await store.open({
      clock,
      incarnation: this.#incarnation,
      build: this.#config.options.build ?? null,
      onTrouble: (part, error) => this.#trouble(part, error),
    })
    try {
      if (store.migratesAtStart) await store.migrate()
      await store.checkSchema()
      if (this.#consumers().length > 0) await this.#startConsumers()
    } catch (error) {
      await this.stop()
      throw error
    }
    this.#emitter.emit('started', {
      incarnation: this.#incarnation,
      consumers: this.#consumers().map(consumer => consumer.name),
    })
  }

  /**
   * Sends one message. Without `tx` it is committed when the promise resolves; sends that come together share a commit. With `tx` it
   * belongs to the caller's own open transaction, and exists when that commits. Rejects with INVALID_MESSAGE, MESSAGE_TOO_LARGE or
   * ID_REUSED, and with STORE_… when the store cannot be reached: send again with the same id then.
   */
  async send<D extends AnyMessageDefinition>(
    definition: D,
    input: InputOf<D>,
    options: SendOptions & { readonly tx?: Joined | Tx } = {},
  ): Promise<SendResult> {
    this.#assertOpen()
    const message = await this.#encode(definition, input, options)
    const acceptance =
      options.tx === undefined
        ? await this.#sender.send(message, options.id === undefined)
        : ((await this.store.join(options.tx as Joined).deliveries.accept([message]))[0] as Acceptance)
    return { id: acceptance.id, duplicate: acceptance.duplicate, kept: acceptance.kept }
  }

  /**
   * A transaction of the caller's own, for writers that live in this process: on SQLite it takes its turn among ichido's writers, and
   * may await nothing but `tx` and `send`. What is sent is committed with it.
   */
  async transaction<T>(work: (own: OwnTransaction<Tx>) => Awaitable<T>): Promise<T> {
    this.#assertOpen()
    return this.store.transaction(async session => {
      const lease = session.lease('')
      let open = true
      const send: SendInTransaction = async (definition, input, options) => {
        if (!open) throw new IchidoError('TX_CLOSED', `${definition.type} was sent after the transaction had ended.`)
        const message = await this.#encode(definition, input, options ?? {})
        const [acceptance] = await session.deliveries.accept([message])
        return { id: (acceptance as Acceptance).id }
      }
      try {
        const result = await work({ tx: lease.tx, send })
        const fault = lease.close()
        if (fault) throw fault
        return result
      } finally {
        open = false
        lease.close()
      }
    })
  }

  /** Hears events; returns how to stop hearing. */
  on<Name extends EventName>(name: Name, listener: (event: Events[Name]) => void): () => void {
    return this.#emitter.on(name, listener)
  }

  /** Resolves when nothing of this process's consumers is due, in progress or waiting for its next try. Delayed messages do not count. */
  async idle(): Promise<void> {
    const names = new Set(this.#consumers().map(consumer => consumer.name))
    for (let pauseMs = 5; ; pauseMs = Math.min(200, pauseMs * 1.5)) {
      this.#assertOpen()
      const { consumers } = await this.store.reads.status()
      const busy = consumers.some(({ consumer, states, inProgress }) => {
        return names.has(consumer) && inProgress + states.ready + states.retry + states.suspect > 0
      })
      if (!busy) return
      await this.#surroundings.clock.sleep(pauseMs)
    }
  }

  /** Starts nothing new, finishes what runs within `shutdownMs`, gives the rest back, and closes the store. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #stop(): Promise<void> {
    const { clock } = this.#surroundings
    const deadlineMs = this.#config.options.shutdownMs ?? defaults.shutdownMs
    const deadline = clock.after(deadlineMs, () =>
      this.#giveUp.abort(new IchidoError('CLOSED', 'The shutdown deadline is over.')),
    )
    this.#unlisten?.()
    await Promise.all([...this.#lanes, ...this.#receiving].map(part => part.stop()))
    await this.#maintenance?.stop()
    await this.#sender.settled()
    deadline.cancel()
    this.#giveUp.abort(new IchidoError('CLOSED', 'ichido was stopped.'))
    const released = await this.#signOff()
    await this.store.close()
    this.#closed = true
    this.#emitter.emit('stopped', { incarnation: this.#incarnation, released })
  }

  #encode(definition: AnyMessageDefinition, input: unknown, options: SendOptions): Awaitable<OutgoingMessage> {
    const route = routeOf(this.#config.options.routes ?? {}, definition.topic)
    if (route !== null) {
      const hint = 'Publish it on the transport itself: the outbox that sends in a transaction is not there yet.'
      throw new IchidoError('INVALID_CONFIG', `The topic ${definition.topic} is routed to ${route}.`, { hint })
    }
    return encodeMessage(definition, input, options, this.#newId)
  }

  /** Gives back what is still claimed. When the store cannot be reached, the lease runs out by itself. */
  async #signOff(): Promise<number> {
    if (!this.#heartbeat) return 0
    try {
      await this.#heartbeat.stop()
      const released = await this.store.releaseAll(this.#incarnation)
      await this.store.leave(this.#incarnation)
      return released
    } catch (error) {
      this.#trouble(
        'shutdown',
        error instanceof IchidoError ? error : new IchidoError('STORE_ERROR', 'Signing off failed.', { cause: error }),
      )
      return 0
    }
  }

  async #startConsumers(): Promise<void> {
    const { store } = this
    const consumers = this.#consumers()
    await store.subscribe(consumers.flatMap(subscriptionsOf), false)
    this.#maintenance = new MaintenanceLoop(store, this.#surroundings.clock, this.#maintenanceSettings(), {
      onReaped: reaped => this.#reaped(reaped),
      onSuspects: names => this.#runSuspects(names),
      onTrouble: (part, error) => this.#trouble(part, error),
      onBlocked: blockedMs => this.#emitter.emit('loopBlocked', { blockedMs }),
    })
    await this.#maintenance.adopt()
    await this.#signOn()
    const work = createWork({
      config: this.#config,
      consumers,
      clock: this.#surroundings.clock,
      gate: this.#gate,
      signal: this.#giveUp.signal,
      owner: () => this.#incarnation,
      emit: (name, event) => this.#emitter.emit(name, event),
      encode: (definition, input, options) => this.#encode(definition, input, options),
      onStep: this.#surroundings.onStep,
    })
    this.#lanes = work.lanes
    this.#receiving = work.receiving
    this.#unlisten = store.onWork(name => {
      for (const lanes of this.#lanes) if (name === null || lanes.consumer === name) lanes.wake()
    })
    for (const part of [...this.#lanes, ...this.#receiving]) part.start()
    this.#maintenance.start()
  }

  async #signOn(): Promise<void> {
    const consumers = this.#consumers().map(consumer => consumer.name)
    const incarnation = this.#incarnation
    await this.store.register({
      incarnation,
      host: hostname(),
      pid: process.pid,
      consumers,
      build: this.#config.options.build ?? null,
    })
    this.#heartbeat = await this.store.heartbeat(incarnation, this.#config.options.beatMs ?? defaults.beatMs, () => {
      void this.#startAgain(incarnation)
    })
  }

  /** Taken for dead while it was paused: what it had claimed is fenced, and it goes on under a new name. */
  async #startAgain(lost: string): Promise<void> {
    if (lost !== this.#incarnation || this.#stopping) return
    this.#emitter.emit('incarnationLost', { incarnation: lost })
    this.#incarnation = randomUUID()
    for (let failures = 1; !this.#stopping; failures++) {
      try {
        await this.#heartbeat?.stop()
        await this.#signOn()
        for (const lanes of this.#lanes) lanes.wake()
        return
      } catch (error) {
        this.#trouble(
          'sign-on',
          error instanceof IchidoError ? error : new IchidoError('STORE_ERROR', 'Signing on failed.', { cause: error }),
        )
        await this.#surroundings.clock.sleep(Math.min(5_000, 50 * 2 ** failures), this.#giveUp.signal)
      }
    }
  }

  /** Suspects run one at a time, while this process runs nothing else of any consumer. */
  async #runSuspects(names: readonly string[]): Promise<void> {
    for (const lanes of this.#lanes) {
      if (!names.includes(lanes.consumer)) continue
      let more = true
      while (more && !this.#stopping) more = await this.#gate.alone(() => lanes.runSuspect())
    }
  }

  #reaped(reaped: Reaped): void {
    const { incarnation, suspects, dead } = reaped
    if (suspects + dead.length > 0) this.#emitter.emit('processLost', { incarnation, suspects, dead: dead.length })
    for (const name of dead) {
      const text = 'The process died each time this message ran alone.'
      const error = { class: 'system' as const, code: 'KILLS_PROCESS', message: text, stack: null }
      this.#emitter.emit('dead', { ...name, attempt: 0, label: 'unknown', error })
    }
  }

  #reportTo(onError: (report: ErrorReport) => unknown): void {
    this.#emitter.on('dead', event => {
      this.#emitter.guard('onError', () => onError({ ...event, build: this.#config.options.build ?? null }))
    })
  }

  #trouble(part: string, error: IchidoError): void {
    this.#emitter.emit('degraded', { part, code: error.code, message: error.message })
  }

  #consumers() {
    const { consume = true } = this.#surroundings
    if (consume === false) return []
    return consume === true
      ? this.#config.consumers
      : this.#config.consumers.filter(consumer => consume.includes(consumer.name))
  }

  #maintenanceSettings() {
    const { leaseMs, beatMs, maxDeaths, retentionMs, keptMs, pollMs } = { ...defaults, ...this.#config.options }
    const consumers = this.#consumers().map(consumer => ({ name: consumer.name, known: knownVersions(consumer) }))
    return { leaseMs, beatMs, maxDeaths, retentionMs, keptMs, pollMs, consumers }
  }

  #assertOpen(): void {
    if (this.#closed || this.#stopping) throw new IchidoError('CLOSED', 'ichido was stopped.')
  }
}
