import type { Actor, Cases, DeadLetterPage, DeadLetterQuery, DeliveryName, Payload, Trace } from './cases.ts'
import type { Clock } from './clock.ts'
import type { Awaitable, Claim, ClaimRequest, Deliveries } from './deliveries.ts'
import type { IchidoError } from './errors.ts'
import type { Finding, LedgerSnapshot, LedgerSweep, StoreStatus } from './ledger.ts'

export interface StoreFacts {
  /** How many business transactions make sense at once: 1 where there is one writer. */
  readonly writers: 'one' | 'many'
  /** The default number of batches in flight per consumer and process. */
  readonly concurrency: number
  /** A batch is cut when its transaction has run this long. */
  readonly batchBudgetMs: number
  /** `Deliveries.claim` works inside the settling transaction and saves a commit. */
  readonly chainsClaims: boolean
}

export interface StoreHost {
  readonly clock: Clock
  /** Names this process in this run; never a host name. */
  readonly incarnation: string
  /** Names the build that runs, for cases; from the configuration. */
  readonly build: string | null
  /** A part of the store fails in the background (a listener, the heartbeat). The store goes on trying. */
  readonly onTrouble: (part: string, error: IchidoError) => void
}

/** The least that handlers of every store can use. Rows are plain objects by column name. */
export interface SqlTx {
  run(sql: string, ...params: readonly unknown[]): Awaitable<{ readonly changes: number }>
  get<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Awaitable<Row | undefined>
  all<Row = Record<string, unknown>>(sql: string, ...params: readonly unknown[]): Awaitable<Row[]>
  /** Runs a part that may fail: what it wrote is undone when it throws, and the error passes on to the caller, who may catch it. */
  savepoint<T>(work: () => Awaitable<T>): Promise<T>
  /**
   * The version guard. True when (version, tieBreaker) is greater than what this consumer last applied to the entity, which it records
   * in this transaction; false when it is equal or older: return `'stale'` then. Strings compare bytewise, numbers by size; an entity
   * keeps one of the two. A deletion advances the guard too, so an older update cannot bring the entity back.
   */
  advance(entity: string, version: number | string, tieBreaker?: string): Awaitable<boolean>
}

/** One handler's use of the transaction. */
export interface TxLease<Tx> {
  readonly tx: Tx
  /** Shuts `tx` for good and tells what was wrong with its use, if anything (TX_STATEMENT_IN_FLIGHT, TX_STATEMENT_FAILED, …). */
  close(): IchidoError | null
}

/** The roles bound to one transaction. */
export interface Session<Tx> {
  readonly deliveries: Deliveries
  readonly cases: Cases
  /** Opens `tx` for one handler. `scope` (the consumer) is where version guards belong. */
  lease(scope: string): TxLease<Tx>
  /** Runs `work` inside a savepoint; rolls back to it when `work` throws, and rethrows. */
  savepoint<T>(work: () => Awaitable<T>): Promise<T>
  /**
   * Set by the store when the transaction can no longer commit (connection lost, handler awaited something else on SQLite): called at
   * once with the reason, so that a handler that never returns is given up. At most one listener.
   */
  onDoomed(listener: (reason: unknown) => void): void
}

export interface TransactionOptions {
  /** Server-side timeouts are set to this plus a second, so that a paused owner frees its rows. */
  readonly timeoutMs?: number
}

export interface ProcessInfo {
  readonly incarnation: string
  readonly host: string
  readonly pid: number
  readonly consumers: readonly string[]
  readonly build: string | null
}

export interface Heartbeat {
  stop(): Promise<void>
}

export interface Reaped {
  readonly incarnation: string
  readonly suspects: number
  /** Killers that reached `maxDeaths`: dead letters now. */
  readonly dead: readonly DeliveryName[]
}

/** What one consumer asks to receive, as the store remembers it. */
export interface Subscription {
  readonly consumer: string
  readonly topic: string
  readonly types: readonly string[]
  /** Of what may not change without `migrate`: order, grade, onDead, topics, route. */
  readonly fingerprint: string
}

export interface Migration {
  readonly number: number
  readonly name: string
  readonly sql: string
  /** Older workers must not go on with the schema that it makes. */
  readonly breaking: boolean
}

/** The loops that no message depends on. Each call is bounded, its own transaction, and harmless when several processes make it. */
export interface Maintenance {
  /** Adds folded counters together. */
  foldCounters(): Promise<void>
  /** Makes deliveries of kept messages whose topic has a consumer now. Returns how many messages it took; call until 0. */
  adoptKept(limit: number): Promise<number>
  /** Kept for longer than `keptMs`: a case NO_CONSUMER. Returns how many. */
  expireKept(keptMs: number): Promise<number>
  /**
   * Deletes identities that ended longer than `retentionMs` ago: raises the watermark and commits, waits for the longest transaction,
   * deletes in bounded batches. Unfinished rows are never touched. Returns how many were deleted.
   */
  purge(consumer: string, retentionMs: number, limit: number): Promise<number>
  /** Turns rows of processes whose beat is older than `leaseMs` into suspects; a suspect that killed alone `maxDeaths` times is dead. */
  reap(leaseMs: number, maxDeaths: number): Promise<readonly Reaped[]>
  /** Makes deliveries that wait for newer code ready, for the versions that this code knows. */
  releaseVersions(consumer: string, known: Readonly<Record<string, number>>): Promise<number>
  /** Suspects taken from a transport whose possible owners all live or left cleanly are cleared to ready. */
  clearSuspects(consumer: string): Promise<number>
}

export interface Reads {
  status(): Promise<StoreStatus>
  /** Counters and counts of one snapshot; with `sweep` those of the finished identities too, which reads them all. */
  ledger(sweep?: boolean): Promise<LedgerSnapshot>
  sweep(): Promise<LedgerSweep>
  trace(id: string): Promise<readonly Trace[]>
  deadLetters(query: DeadLetterQuery): Promise<DeadLetterPage>
  payload(name: DeliveryName): Promise<Payload | null>
  /** Versions, settings and file or server facts that the guarantees rest on. */
  diagnose(): Promise<readonly Finding[]>
}

/**
 * The database where a consumer's effects happen. `Tx` is what handlers get, `Joined` what `send({ tx })` accepts: the handle of the
 * caller's own transaction.
 */
export interface Store<Tx extends SqlTx = SqlTx, Joined = unknown> {
  /** `sqlite`, `postgres`. For people; code asks `facts`. */
  readonly name: string
  readonly facts: StoreFacts
  readonly reads: Reads
  readonly maintenance: Maintenance

  /** Connects and checks versions. Does not migrate. Throws SQLITE_TOO_OLD, STORE_UNAVAILABLE. Calling it again is an error. */
  open(host: StoreHost): Promise<void>
  close(): Promise<void>
  /** Milliseconds since 1970 on the store's clock. */
  now(): Promise<number>

  /** What `migrate` would apply, in order. */
  pendingMigrations(): Promise<readonly Migration[]>
  /** Applies what is pending under a lock, each in its own transaction. Throws MIGRATION_CHANGED, SCHEMA_NEWER. */
  migrate(): Promise<readonly Migration[]>
  /** Throws SCHEMA_MISSING, SCHEMA_OUTDATED or SCHEMA_NEWER when this version cannot work with the schema. */
  checkSchema(): Promise<void>
  /** True where starting may migrate by itself (a file in this process), false where only `ichido migrate` does. */
  readonly migratesAtStart: boolean

  /**
   * Writes what is new; throws CONSUMER_CHANGED when a fingerprint differs and `accept` is not set. Subscriptions that are missing from
   * the list are left alone.
   */
  subscribe(subscriptions: readonly Subscription[], accept: boolean): Promise<void>
  subscriptions(): Promise<readonly Subscription[]>

  /**
   * Runs `work` in a transaction of its own. Rolls back when it throws. Throws COMMIT_UNKNOWN when the answer of COMMIT was lost, and
   * FENCED, STORE_… otherwise. On SQLite all writers of the process take turns, and `work` may await nothing but the session.
   */
  transaction<T>(work: (session: Session<Tx>) => Awaitable<T>, options?: TransactionOptions): Promise<T>
  /** Roles bound to the caller's own open transaction. Throws TX_FOREIGN for what is none. */
  join(tx: Joined): Pick<Session<Tx>, 'deliveries'>
  /** A claim in a short commit of its own: the next due deliveries under the hole rule, attempts counted, leased to `owner`. */
  claim(request: ClaimRequest): Promise<Claim>
  /** One suspect of the consumer, for a process that runs nothing else; the claim carries it alone. */
  claimSuspect(request: ClaimRequest): Promise<Claim>
  /** Consumers of the list that have suspects waiting. Cheap. */
  suspects(consumers: readonly string[]): Promise<readonly string[]>
  /** Gives everything back that `owner` has claimed and not settled. Returns how many. */
  releaseAll(owner: string): Promise<number>

  register(process: ProcessInfo): Promise<void>
  /** Beats every `beatMs` from a thread of its own until stopped. `onLost` when the process was declared lost meanwhile. */
  heartbeat(incarnation: string, beatMs: number, onLost: () => void): Promise<Heartbeat>
  /** The process left cleanly. */
  leave(incarnation: string): Promise<void>

  /** Calls `wake` when there may be work for a consumer: a hint that may come late, twice or never. Returns how to stop. */
  onWork(wake: (consumer: string | null) => void): () => void
  /** Appends one row to the audit. */
  audit(action: string, target: string, by: Actor, details: Readonly<Record<string, unknown>>): Promise<void>
}
