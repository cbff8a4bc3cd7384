import type { Clock, Timer } from '../contracts/clock.ts'
import { IchidoError, isIchidoError } from '../contracts/errors.ts'
import type { Reaped, Store } from '../contracts/store.ts'
import { toStoredError } from '../outcomes/stored-error.ts'

export interface MaintenanceSettings {
  readonly leaseMs: number
  readonly beatMs: number
  readonly maxDeaths: number
  readonly retentionMs: number
  readonly keptMs: number
  readonly pollMs: number
  readonly consumers: ReadonlyArray<{ readonly name: string; readonly known: Readonly<Record<string, number>> }>
}

interface Listeners {
  readonly onReaped: (reaped: Reaped) => void
  /** Consumers whose suspects wait to run alone. */
  readonly onSuspects: (consumers: readonly string[]) => Promise<void>
  readonly onTrouble: (part: string, error: IchidoError) => void
  readonly onBlocked: (blockedMs: number) => void
}

const ADOPT = 500
const PURGE = 5_000

/**
 * The loops that no message depends on for its correctness, only for its progress. Every process runs them; each step is bounded and
 * harmless when several do it at once. A step that fails is reported and tried again at its next turn.
 */
export class MaintenanceLoop {
  readonly #store: Store
  readonly #clock: Clock
  readonly #settings: MaintenanceSettings
  readonly #listeners: Listeners
  readonly #timers = new Set<Timer>()
  readonly #turns = new Set<Promise<void>>()
  #stopped = false

  constructor(store: Store, clock: Clock, settings: MaintenanceSettings, listeners: Listeners) {
    this.#store = store
    this.#clock = clock
    this.#settings = settings
    this.#listeners = listeners
  }

  start(): void {
    const { beatMs, pollMs, leaseMs, maxDeaths, keptMs } = this.#settings
    const { maintenance } = this.#store
    this.#every('suspects', pollMs, () => this.#suspects())
    this.#every('reap', beatMs, async () => {
      for (const reaped of await maintenance.reap(leaseMs, maxDeaths)) this.#listeners.onReaped(reaped)
    })
    this.#every('adopt', pollMs, () => this.adopt())
    this.#every('versions', 2 * pollMs, async () => {
      for (const { name, known } of this.#settings.consumers) await maintenance.releaseVersions(name, known)
    })
    this.#every('counters', 5 * pollMs, () => maintenance.foldCounters())
    this.#every('purge', 30 * pollMs, () => this.#purge())
    this.#every('kept', 60 * pollMs, async () => {
      await maintenance.expireKept(keptMs)
    })
    this.#watchLoop(beatMs)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    for (const timer of this.#timers) timer.cancel()
    await Promise.all(this.#turns)
  }

  async adopt(): Promise<void> {
    while (!this.#stopped && (await this.#store.maintenance.adoptKept(ADOPT)) > 0);
  }

  async #suspects(): Promise<void> {
    for (const { name } of this.#settings.consumers) await this.#store.maintenance.clearSuspects(name)
    const waiting = await this.#store.suspects(this.#settings.consumers.map(consumer => consumer.name))
    if (waiting.length > 0) await this.#listeners.onSuspects(waiting)
  }

  async #purge(): Promise<void> {
    for (const { name } of this.#settings.consumers) {
      while (!this.#stopped && (await this.#store.maintenance.purge(name, this.#settings.retentionMs, PURGE)) >= PURGE);
    }
  }

  /** Runs `step` again and again, `everyMs` after its last end, spread so that processes do not march in step. */
  #every(name: string, everyMs: number, step: () => Promise<void>): void {
    const schedule = () => {
      if (this.#stopped) return
      const timer = this.#clock.after(
        everyMs * (0.75 + this.#clock.random() / 2),
        () => {
          this.#timers.delete(timer)
          const turn = this.#turn(name, step).finally(() => {
            this.#turns.delete(turn)
            schedule()
          })
          this.#turns.add(turn)
        },
        true,
      )
      this.#timers.add(timer)
    }
    schedule()
  }

  async #turn(name: string, step: () => Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      const trouble = isIchidoError(error)
        ? error
        : new IchidoError('STORE_ERROR', toStoredError(error, 'system', 'STORE_ERROR').message, { cause: error })
      this.#listeners.onTrouble(`maintenance (${name})`, trouble)
    }
  }

  /** Notices handlers that keep the event loop busy: beats go on from their own thread, but nothing else moves. */
  #watchLoop(everyMs: number): void {
    const startedAt = this.#clock.monotonic()
    const timer = this.#clock.after(
      everyMs,
      () => {
        this.#timers.delete(timer)
        const blockedMs = this.#clock.monotonic() - startedAt - everyMs
        if (blockedMs > everyMs) this.#listeners.onBlocked(blockedMs)
        if (!this.#stopped) this.#watchLoop(everyMs)
      },
      true,
    )
    this.#timers.add(timer)
  }
}
