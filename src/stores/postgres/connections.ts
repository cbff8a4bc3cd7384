import { IchidoError } from '../../contracts/errors.ts'
import type { StoreHost } from '../../contracts/store.ts'
import { type PgPool, type PgPoolClient, Statements, translate } from './client.ts'

/** A client that is out of the pool. Its socket may die while nobody asks it anything: that is heard, and the client is thrown away. */
export class Checkout {
  readonly client: PgPoolClient
  readonly sql: Statements
  #broken: Error | null = null
  #listener: ((error: Error) => void) | null = null
  readonly #onError = (error: Error) => {
    this.#broken ??= error
    this.#listener?.(error)
  }

  constructor(client: PgPoolClient, named: boolean) {
    this.client = client
    this.sql = new Statements(client, named)
    client.on('error', this.#onError as never)
  }

  get broken(): boolean {
    return this.#broken !== null
  }

  onBroken(listener: (error: Error) => void): void {
    this.#listener = listener
    if (this.#broken) listener(this.#broken)
  }

  /** Back to the pool; `unclear` for one whose state nobody knows, which is destroyed. */
  release(unclear: boolean): void {
    this.#listener = null
    if (unclear || this.#broken) {
      // The listener stays: a socket that is being torn down may still complain.
      this.client.release(this.#broken ?? true)
      return
    }
    this.client.removeListener('error', this.#onError as never)
    this.client.release()
  }
}

/** The user's pool, and how it is used: short check-outs, nothing kept on the session. */
export class Connections {
  readonly #pool: PgPool
  readonly #named: boolean
  readonly #onIdleError: (error: Error) => void

  constructor(pool: PgPool, named: boolean, host: StoreHost) {
    this.#pool = pool
    this.#named = named
    // Without a listener a dying idle client would be an unhandled error and end the process.
    this.#onIdleError = error =>
      host.onTrouble(
        'pool',
        new IchidoError('STORE_UNAVAILABLE', `An idle connection was lost: ${error.message}.`, { cause: error }),
      )
    pool.on('error', this.#onIdleError)
  }

  close(): void {
    this.#pool.removeListener('error', this.#onIdleError)
  }

  async checkout(): Promise<Checkout> {
    try {
      return new Checkout(await this.#pool.connect(), this.#named)
    } catch (error) {
      throw translate(error)
    }
  }

  /** Statements that each commit by themselves. */
  async use<T>(work: (sql: Statements) => Promise<T>): Promise<T> {
    const checkout = await this.checkout()
    let failed = true
    try {
      const value = await work(checkout.sql)
      failed = false
      return value
    } finally {
      checkout.release(failed)
    }
  }
}
