import type { Clock } from '../../contracts/clock.ts'
import type { Awaitable } from '../../contracts/deliveries.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { Connection } from './connection.ts'
import { isBusy, storeFault, translate } from './errors.ts'
import type { TransactionLease } from './tx.ts'

/**
 * What watches over one transaction of handlers. It runs in microtasks from BEGIN to COMMIT; when a macrotask gets its turn in between, a
 * handler has awaited something other than `tx`, with the only write lock in its hands: it is rolled back at once.
 */
export class Guard {
  readonly #connection: Connection
  #lease: TransactionLease | null = null
  #listener: ((reason: unknown) => void) | null = null
  #reject: ((reason: unknown) => void) | null = null
  #immediate: NodeJS.Immediate | null
  #closed = false
  doomed: { readonly reason: unknown } | null = null

  constructor(connection: Connection) {
    this.#connection = connection
    this.#immediate = setImmediate(() => {
      const text = 'The handler awaited something other than tx while it held the write lock.'
      this.doom(new IchidoError('TX_AWAITED_OUTSIDE', text))
    })
  }

  open(lease: TransactionLease): TransactionLease {
    this.#lease = lease
    return lease
  }

  /**
   * Settles with the work, or rejects as soon as it is doomed: work that waits for something that itself waits for its turn, such as a send
   * of its own, would otherwise stop all writers for good.
   */
  watch<T>(working: Awaitable<T>): Awaitable<T> {
    if (typeof (working as PromiseLike<T> | null)?.then !== 'function') return working
    return new Promise<T>((resolve, reject) => {
      this.#reject = reject
      ;(working as PromiseLike<T>).then(resolve, reject)
    })
  }

  listen(listener: (reason: unknown) => void): void {
    this.#listener = listener
    if (this.doomed) listener(this.doomed.reason)
  }

  doom(reason: unknown): void {
    if (this.doomed) return
    this.doomed = { reason }
    this.#lease?.close()
    if (this.#connection.inTransaction) this.#connection.run('rollback')
    this.#listener?.(reason)
    // Work that can hear of it unwinds first; then the next writer has its turn.
    setImmediate(() => this.#reject?.(reason))
  }

  /** True when the transaction has ended, however it did. */
  get over(): boolean {
    return this.#closed || this.doomed !== null
  }

  close(): void {
    this.#closed = true
    if (this.#immediate) clearImmediate(this.#immediate)
    this.#immediate = null
  }
}

/** How long another process's commit makes this one polite, how long it may hold the lock in all before it lets go, and for how long. */
const SHARED_MS = 1_000
const FOREIGN_MS = 200
const HOLD_MS = 8
const GAP_MS = 3

/**
 * All writers of this process take turns: a second connection that waited for the lock of the first would block the very loop that frees
 * it. Other processes are waited for without blocking.
 */
export class Writer {
  readonly #connection: Connection
  readonly #clock: Clock
  readonly #busyMs: number
  #tail: Promise<unknown> = Promise.resolve()
  #version: number | undefined
  #beganAt = 0
  #heldMs = 0
  #sharedUntil = 0
  #foreignAt = Number.NEGATIVE_INFINITY

  constructor(connection: Connection, clock: Clock, busyMs: number) {
    this.#connection = connection
    this.#clock = clock
    this.#busyMs = busyMs
  }

  /** Work that is synchronous, in a transaction. */
  run<T>(work: (connection: Connection) => T): Promise<T> {
    return this.#turn(async () => {
      await this.#begin()
      try {
        const value = work(this.#connection)
        this.#connection.run('commit')
        return value
      } catch (error) {
        this.#rollback()
        throw translate(error)
      }
    })
  }

  /** Work that may await what the connection gives it, and nothing else. */
  transaction<T>(work: (connection: Connection, guard: Guard) => Awaitable<T>): Promise<T> {
    return this.#turn(async () => {
      await this.#begin()
      const guard = new Guard(this.#connection)
      try {
        const value = await guard.watch(work(this.#connection, guard))
        if (guard.doomed) throw guard.doomed.reason
        this.#connection.run('commit')
        return value
      } catch (error) {
        this.#rollback()
        throw guard.doomed ? guard.doomed.reason : (storeFault(error) ?? error)
      } finally {
        guard.close()
      }
    })
  }

  async drain(): Promise<void> {
    await this.#tail
  }

  #turn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(work)
    this.#tail = turn.then(
      () => this.#giveWay(),
      () => this.#giveWay(),
    )
    return turn
  }

  async #begin(): Promise<void> {
    const until = this.#clock.monotonic() + this.#busyMs
    for (;;) {
      try {
        this.#connection.run('begin immediate')
        this.#lookAround()
        return
      } catch (error) {
        if (!isBusy(error)) throw translate(error)
        if (this.#clock.monotonic() > until) throw translate(error)
        await this.#clock.sleep(1 + this.#clock.random())
      }
    }
  }

  /** Remembers whether another process has written since our last transaction. */
  #lookAround(): void {
    this.#beganAt = this.#clock.monotonic()
    const version = this.#connection.get<{ data_version: number }>('pragma data_version')?.data_version
    if (version !== this.#version && this.#version !== undefined) {
      // One commit now and then is somebody's heartbeat, perhaps our own thread's; two in a moment are a writer.
      if (this.#beganAt - this.#foreignAt < FOREIGN_MS) this.#sharedUntil = this.#beganAt + SHARED_MS
      this.#foreignAt = this.#beganAt
    }
    this.#version = version
  }

  /**
   * SQLite has no queue for its write lock: those who wait ask again every millisecond or two, and a process that begins again at once would
   * starve them. While others write too, it lets go of the lock for a moment after every few milliseconds.
   */
  async #giveWay(): Promise<void> {
    const now = this.#clock.monotonic()
    this.#heldMs += now - this.#beganAt
    if (now > this.#sharedUntil || this.#heldMs < HOLD_MS) return
    this.#heldMs = 0
    await this.#clock.sleep(GAP_MS)
  }

  #rollback(): void {
    if (!this.#connection.inTransaction) return
    try {
      this.#connection.run('rollback')
    } catch {
      // The transaction is gone already; the next BEGIN tells whether the connection still works.
    }
  }
}
