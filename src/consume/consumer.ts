import type { Log } from '../contracts/log.ts'
import type { AnyMessageDefinition, MessageOf, SendInTransaction } from '../contracts/schema.ts'
import type { SqlTx, Store } from '../contracts/store.ts'
import type { RetryPolicy } from '../outcomes/backoff.ts'
import type { Classifier } from '../outcomes/classify.ts'

export interface PrepareInput<D extends AnyMessageDefinition> {
  readonly message: MessageOf<D>
  /** Aborts at the timeout, when the lease is lost, and at shutdown. */
  readonly signal: AbortSignal
  readonly log: Log
}

export interface HandleInput<D extends AnyMessageDefinition, Prepared, Tx> {
  readonly message: MessageOf<D>
  /** What `prepare` returned. */
  readonly prepared: Prepared
  /** The transaction that also records the message. Shut as soon as the handler has settled. */
  readonly tx: Tx
  readonly send: SendInTransaction
  /** 1 for the first run. A batch that is rolled back because of a neighbour runs again under the same number. */
  readonly attempt: number
  /** The same in every attempt and redrive: pass it on to what is outside the store. */
  readonly idempotencyKey: string
  readonly signal: AbortSignal
  readonly log: Log
}

/** `stale`: the version guard said that something newer was applied already. */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement returns void
export type HandleResult = void | 'stale'

export interface ConsumerOptions<D extends AnyMessageDefinition, Tx extends SqlTx, Prepared> {
  /** The database where the effects happen. */
  // biome-ignore lint/suspicious/noExplicitAny: what `send({ tx })` accepts does not matter here
  readonly store: Store<Tx, any>
  readonly name: string
  readonly messages: readonly D[]
  /** `by-key` (default): messages of one key run in the order of their sends. `none`: keys are ignored. */
  readonly order?: 'by-key' | 'none'
  /** Whether the followers of a dead letter wait behind it (default) or pass it. */
  readonly onDead?: 'block' | 'pass'
  readonly retry?: Partial<RetryPolicy>
  /** For each stage: `prepare` and `handle`. At most 60,000. */
  readonly timeoutMs?: number
  /** Batches at once in this process. Default: the store's (SQLite 1, PostgreSQL 4). */
  readonly concurrency?: number
  /** Messages per transaction, at most. Default 100; it adapts below that. */
  readonly batch?: number
  /** Own rules before the default ones; return undefined to go on with those. */
  readonly classify?: Classifier
  /** Runs concurrently and without a transaction: fetch, compute, wait here. It may be repeated and must have no effects. */
  readonly prepare?: (input: PrepareInput<D>) => Prepared | Promise<Prepared>
  /** Runs in the transaction. Throwing rolls back what it did; returning commits it together with the record of the message. */
  readonly handle: (input: HandleInput<D, Awaited<Prepared>, Tx>) => HandleResult | Promise<HandleResult>
}

/** A consumer as the runtime sees it: the types of its handlers are gone. */
export interface Consumer {
  readonly store: Store
  readonly name: string
  readonly messages: readonly AnyMessageDefinition[]
  readonly order: 'by-key' | 'none'
  readonly onDead: 'block' | 'pass'
  readonly retry: Partial<RetryPolicy>
  readonly timeoutMs: number | undefined
  readonly concurrency: number | undefined
  readonly batch: number | undefined
  readonly classify: Classifier | undefined
  readonly prepare: ((input: PrepareInput<AnyMessageDefinition>) => unknown) | undefined
  readonly handle: (input: HandleInput<AnyMessageDefinition, unknown, SqlTx>) => unknown
}

/**
 * Describes a consumer: grade effectively-once, since the record of the message commits with the handler's own changes. What contradicts
 * itself is refused by `defineIchido`, all of it at once.
 */
export function defineConsumer<const D extends AnyMessageDefinition, Tx extends SqlTx, Prepared = undefined>(
  options: ConsumerOptions<D, Tx, Prepared>,
): Consumer {
  const { order = 'by-key', onDead = 'block', retry = {}, timeoutMs, concurrency, batch, classify, prepare } = options
  return {
    store: options.store as unknown as Store,
    name: options.name,
    messages: options.messages,
    order,
    onDead,
    retry,
    timeoutMs,
    concurrency,
    batch,
    classify,
    prepare: prepare as Consumer['prepare'],
    handle: options.handle as unknown as Consumer['handle'],
  }
}
