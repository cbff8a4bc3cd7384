import type { Clock, Timer } from '../contracts/clock.ts'
import type { Awaitable } from '../contracts/deliveries.ts'
import { IchidoError } from '../contracts/errors.ts'
import type { Log } from '../contracts/log.ts'
import type { Message, OutgoingMessage } from '../contracts/message.ts'
import type { SendInTransaction } from '../contracts/schema.ts'
import type { Session, SqlTx, TxLease } from '../contracts/store.ts'
import type { HandleInput } from './consumer.ts'
import { idempotencyKey, type RunningConsumer } from './running.ts'

/** What a handler gets. Everything that is rarely used is made when it is asked for. */
class Input implements HandleInput<never, unknown, SqlTx> {
  readonly message: never
  readonly prepared: unknown
  readonly attempt: number
  readonly #running: RunningConsumer
  readonly #lease: TxLease<SqlTx>
  readonly #sends: OutgoingMessage[]
  #abort: AbortController | null = null
  #closed = false
  #handedOut = false

  constructor(
    running: RunningConsumer,
    message: Message,
    prepared: unknown,
    attempt: number,
    lease: TxLease<SqlTx>,
    sends: OutgoingMessage[],
  ) {
    this.#running = running
    this.message = message as never
    this.prepared = prepared
    this.attempt = attempt
    this.#lease = lease
    this.#sends = sends
  }

  get tx(): SqlTx {
    const { tx } = this.#lease
    if (!this.#handedOut) {
      this.#handedOut = true
      undoSendsWith(tx, this.#sends)
    }
    return tx
  }

  get send(): SendInTransaction {
    return async (definition, input, options) => {
      const encoded = this.#running.encode(definition, input, options ?? {})
      const message = encoded instanceof Promise ? await encoded : (encoded as OutgoingMessage)
      if (this.#closed)
        throw new IchidoError('TX_CLOSED', `${definition.type} was sent after the handler had returned.`)
      this.#sends.push(message)
      return { id: message.id }
    }
  }

  get idempotencyKey(): string {
    const { topic, id } = this.message as Message
    return idempotencyKey(this.#running.consumer.name, topic, id)
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    return this.#abort.signal
  }

  get log(): Log {
    const { topic, id } = this.message as Message
    return withFields(this.#running.log, { consumer: this.#running.consumer.name, topic, id, attempt: this.attempt })
  }

  /** After this nothing that the handler left running can write or send. */
  close(reason: unknown): void {
    this.#closed = true
    if (reason !== undefined) this.#abort?.abort(reason)
  }
}

/** What was sent inside a savepoint that fails vanishes with what was written there: sends are buffered, and the store cannot know of them. */
function undoSendsWith(tx: SqlTx, sends: OutgoingMessage[]): void {
  const own = tx.savepoint
  tx.savepoint = async <T>(work: () => Awaitable<T>): Promise<T> => {
    const mark = sends.length
    try {
      return (await own.call(tx, work)) as T
    } catch (error) {
      sends.length = Math.min(mark, sends.length)
      throw error
    }
  }
}

/** A log whose lines all carry the same fields. */
export function withFields(log: Log, fields: Readonly<Record<string, unknown>>): Log {
  return {
    debug: (message, more) => log.debug(message, { ...fields, ...more }),
    info: (message, more) => log.info(message, { ...fields, ...more }),
    warn: (message, more) => log.warn(message, { ...fields, ...more }),
    error: (message, more) => log.error(message, { ...fields, ...more }),
  }
}

/**
 * Watches the handlers of one transaction, which run one after another. A handler that returns no promise costs nothing here; one that
 * waits is given up when its time is over, or when the store says that the transaction is doomed.
 */
export class Watch {
  readonly #clock: Clock
  readonly #timeoutMs: number
  #timer: Timer | null = null
  #startedAt = 0
  #reject: ((reason: unknown) => void) | null = null
  /** Set when the transaction cannot be used any more, whatever the next handler does. */
  doomed: { readonly reason: unknown } | null = null

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
  }

  begin(): void {
    this.#startedAt = this.#clock.monotonic()
  }

  elapsedMs(): number {
    return this.#clock.monotonic() - this.#startedAt
  }

  doom(reason: unknown): void {
    this.doomed ??= { reason }
    this.#reject?.(reason)
  }

  /** Settles with the handler's promise, or rejects as soon as the handler must be given up. */
  wait(pending: PromiseLike<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#reject = reject
      this.#timer ??= this.#clock.after(this.#timeoutMs, () => this.#check())
      pending.then(resolve, reject)
    }).finally(() => {
      this.#reject = null
    })
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #check(): void {
    this.#timer = null
    if (!this.#reject) return
    const remainingMs = this.#timeoutMs - this.elapsedMs()
    if (remainingMs > 0) {
      this.#timer = this.#clock.after(remainingMs, () => this.#check())
      return
    }
    this.doom(new IchidoError('HANDLER_TIMEOUT', `The handler has not returned within ${this.#timeoutMs} ms.`))
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

/**
 * Step four for one message: opens `tx`, runs the handler, shuts `tx`. Throws what the handler threw, or what was wrong with its use of
 * `tx`. Returns `done` or `stale`.
 */
export async function runHandler(
  running: RunningConsumer,
  session: Session<SqlTx>,
  watch: Watch,
  sends: OutgoingMessage[],
  subject: { readonly message: Message; readonly prepared: unknown; readonly attempt: number },
): Promise<'done' | 'stale'> {
  const lease = session.lease(running.consumer.name)
  const input = new Input(running, subject.message, subject.prepared, subject.attempt, lease, sends)
  let failure: unknown
  let returned: unknown
  let threw = false
  watch.begin()
  try {
    returned = running.consumer.handle(input)
    if (isThenable(returned)) returned = await watch.wait(returned)
  } catch (error) {
    threw = true
    failure = error
  }
  const fault = lease.close()
  input.close(threw ? failure : undefined)
  if (watch.doomed) throw watch.doomed.reason
  if (threw) throw failure
  if (fault) throw fault
  return returned === 'stale' ? 'stale' : 'done'
}
