import { IchidoError } from '../../contracts/errors.ts'
import type { StoreHost } from '../../contracts/store.ts'
import type { Checkout, Connections } from './connections.ts'
import { ringBell } from './queries.ts'

const NOTIFY_EVERY_MS = 2

type Wake = (consumer: string | null) => void

/**
 * LISTEN on one client of the pool: hints that there may be work. They may come late, twice or never, since polling is the truth; so a
 * failure here is trouble, not an error, and it connects again with longer and longer pauses.
 */
export class Listener {
  readonly #connections: Connections
  readonly #host: StoreHost
  readonly #wakes = new Set<Wake>()
  readonly #stop = new AbortController()
  #checkout: Checkout | null = null
  #running: Promise<void> | null = null
  #announcing: Promise<void> | null = null
  #unsaid = false

  constructor(connections: Connections, host: StoreHost) {
    this.#connections = connections
    this.#host = host
  }

  /** `remote`: also for what other processes commit. */
  add(wake: Wake, remote: boolean): () => void {
    this.#wakes.add(wake)
    if (remote) this.#running ??= this.#run()
    return () => this.#wakes.delete(wake)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#checkout?.release(true)
    this.#checkout = null
    await Promise.all([this.#running, this.#announcing])
  }

  ring(): void {
    for (const wake of this.#wakes) wake(null)
  }

  /**
   * Tells this process at once and the others soon. NOTIFY takes a lock of the whole server until its transaction has committed, so in
   * the transactions of senders it would put their commits in a row (fsync included); in one of its own that wrote nothing it is held
   * for microseconds. While one is on its way, all later ones become one.
   */
  announce(): void {
    this.ring()
    this.#unsaid = true
    this.#announcing ??= this.#announce()
  }

  async #announce(): Promise<void> {
    try {
      while (this.#unsaid && !this.#stop.signal.aborted) {
        this.#unsaid = false
        await this.#connections.use(sql => sql.run(ringBell))
        await this.#host.clock.sleep(NOTIFY_EVERY_MS, this.#stop.signal)
      }
    } catch {
      // A hint that was lost: polling finds the work.
    } finally {
      this.#announcing = null
    }
  }

  async #run(): Promise<void> {
    const { clock } = this.#host
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      try {
        await this.#listen()
        failures = 0
      } catch (error) {
        if (this.#stop.signal.aborted) return
        this.#host.onTrouble(
          'listen',
          new IchidoError('STORE_UNAVAILABLE', `LISTEN failed: ${(error as Error).message}.`, { cause: error }),
        )
        failures++
      }
      await clock.sleep(Math.min(10_000, 100 * 2 ** failures) * (0.5 + clock.random() / 2), this.#stop.signal)
    }
  }

  /** Resolves when the connection is lost. */
  async #listen(): Promise<void> {
    const checkout = await this.#connections.checkout()
    if (this.#stop.signal.aborted) return checkout.release(true)
    this.#checkout = checkout
    const onNotification = () => this.ring()
    checkout.client.on('notification', onNotification as never)
    try {
      await checkout.client.query('listen ichido')
      this.ring()
      await new Promise<void>(resolve => {
        checkout.onBroken(() => resolve())
        this.#stop.signal.addEventListener('abort', () => resolve(), { once: true })
      })
    } finally {
      checkout.client.removeListener('notification', onNotification as never)
      if (this.#checkout === checkout) {
        this.#checkout = null
        checkout.release(true)
      }
    }
  }
}
