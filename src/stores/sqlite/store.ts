import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Actor } from '../../contracts/cases.ts'
import type { Awaitable, Claim, ClaimRequest } from '../../contracts/deliveries.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type {
  Heartbeat,
  Maintenance,
  Migration,
  ProcessInfo,
  Reads,
  Session,
  Store,
  StoreHost,
  Subscription,
} from '../../contracts/store.ts'
import { checkApplied, checksum, pending, readMigrations } from '../migrator.ts'
import { SqliteCases } from './cases.ts'
import { claimDeliveries, claimOneSuspect } from './claim.ts'
import { Connection } from './connection.ts'
import { SqliteDeliveries } from './deliveries.ts'
import { diagnose } from './diagnose.ts'
import { translate } from './errors.ts'
import { startHeartbeatThread, startLocalHeartbeat } from './heartbeat.ts'
import { SqliteMaintenance, writeAudit } from './maintenance.ts'
import { hasSuspects } from './queries.ts'
import * as loops from './queries-maintenance.ts'
import { SqliteReads } from './reads.ts'
import { applyMigration, readApplied } from './schema.ts'
import { type SqliteTx, TransactionLease } from './tx.ts'
import { Wakeup } from './wakeup.ts'
import { createWork, type TransactionWork } from './work.ts'
import { Writer } from './writer.ts'

export type { SqliteTx }

export interface SqliteOptions {
  /** Longest wait for another process's write lock before STORE_BUSY. Default 30 s. */
  readonly busyMs?: number
  /** Only looks: makes no file and changes no setting of an existing one; whatever writes throws STORE_READ_ONLY. Default false. */
  readonly readOnly?: boolean
}

const migrations = readMigrations(new URL('./migrations/', import.meta.url))
const OLDEST_SQLITE = [3, 51, 3]

/** The embedded store: one file, WAL, full synchronisation. `path` may be ':memory:' for a store that lives and dies with the process. */
export function sqlite(path: string, options: SqliteOptions = {}): SqliteStore {
  return new SqliteStore(path, options)
}

export class SqliteStore implements Store<SqliteTx, SqliteTx | DatabaseSync> {
  readonly name = 'sqlite'
  readonly facts = { writers: 'one', concurrency: 1, batchBudgetMs: 50, chainsClaims: true } as const
  readonly migratesAtStart = true
  readonly reads: Reads
  readonly maintenance: Maintenance
  readonly #path: string
  readonly #options: SqliteOptions
  readonly #joined = new WeakMap<DatabaseSync, Connection>()
  #host: StoreHost | null = null
  #writing: Connection | null = null
  #reading: Connection | null = null
  #writer: Writer | null = null
  #wakeup: Wakeup | null = null

  constructor(path: string, options: SqliteOptions) {
    this.#path = path === ':memory:' ? path : resolve(path)
    this.#options = options
    this.reads = new SqliteReads(
      read => this.#read(read),
      () => this.#clock.now(),
      async () => diagnose(this.#path, this.#open().reading),
    )
    this.maintenance = new SqliteMaintenance(
      work => this.#write(work),
      () => this.#clock,
    )
  }

  async open(host: StoreHost): Promise<void> {
    if (this.#host) throw new IchidoError('INVALID_CONFIG', 'The store is open already: one start per store object.')
    checkVersion()
    const { readOnly = false } = this.#options
    try {
      if (this.#path !== ':memory:' && !readOnly) mkdirSync(dirname(this.#path), { recursive: true })
      this.#writing = connect(this.#path, readOnly)
      this.#reading = this.#path === ':memory:' ? this.#writing : connect(this.#path, readOnly)
    } catch (error) {
      this.#writing?.close()
      this.#writing = null
      throw translate(error)
    }
    this.#host = host
    const writing = this.#writing
    this.#writer = new Writer(writing, host.clock, this.#options.busyMs ?? 30_000)
    this.#wakeup = new Wakeup(host.clock, changeDetector(this.#reading))
    if (this.#path !== ':memory:') this.#wakeup.watch(this.#path)
  }

  async close(): Promise<void> {
    await this.#writer?.drain()
    this.#wakeup?.close()
    if (this.#reading !== this.#writing) this.#reading?.close()
    this.#writing?.close()
    this.#host = null
    this.#writing = null
    this.#reading = null
  }

  async now(): Promise<number> {
    return this.#clock.now()
  }

  async pendingMigrations(): Promise<readonly Migration[]> {
    return this.#read(connection => pending(migrations, readApplied(connection) ?? []))
  }

  async migrate(): Promise<readonly Migration[]> {
    const applied: Migration[] = []
    for (;;) {
      const done = await this.#writer?.run(connection => {
        const next = pending(migrations, readApplied(connection) ?? [])[0]
        if (next) applyMigration(connection, next, checksum(next), this.#clock.now())
        return next ?? null
      })
      if (!done) return applied
      applied.push(done)
    }
  }

  async checkSchema(): Promise<void> {
    checkApplied(migrations, await this.#read(readApplied))
  }

  async subscribe(subscriptions: readonly Subscription[], accept: boolean): Promise<void> {
    await this.#write(({ connection, now }) => {
      const known = readSubscriptions(connection)
      for (const { consumer, topic, types, fingerprint } of subscriptions) {
        const own = known.filter(other => other.consumer === consumer)
        if (!accept && own.length > 0 && own.some(other => other.fingerprint !== fingerprint)) {
          throw new IchidoError(
            'CONSUMER_CHANGED',
            `The consumer ${consumer} has other topics, order, grade or onDead than before.`,
          )
        }
        connection.run(loops.upsertSubscription, consumer, topic, JSON.stringify(types), fingerprint, now)
      }
    })
  }

  async subscriptions(): Promise<readonly Subscription[]> {
    return this.#read(readSubscriptions)
  }

  async transaction<T>(work: (session: Session<SqliteTx>) => Awaitable<T>): Promise<T> {
    const { writer, host } = this.#open()
    const woken = new Set<string>()
    const result = await writer.transaction(async (connection, guard) => {
      const own = createWork(connection, host.clock.now(), host.build, () => guard.over)
      const deliveries = new SqliteDeliveries(own)
      const cases = new SqliteCases(own)
      const session: Session<SqliteTx> = {
        deliveries,
        cases,
        lease: scope =>
          guard.open(new TransactionLease(connection, scope, reason => guard.doom(reason), own.transitions)),
        savepoint: inner => savepoint(own, inner, () => guard.over),
        onDoomed: listener => guard.listen(listener),
      }
      const value = await work(session)
      own.transitions.write(connection)
      for (const consumer of own.woken) woken.add(consumer)
      return value
    })
    for (const consumer of woken) this.#wakeup?.ring(consumer)
    return result
  }

  join(tx: SqliteTx | DatabaseSync): Pick<Session<SqliteTx>, 'deliveries'> {
    const { host, writing } = this.#open()
    const connection = tx instanceof DatabaseSync ? this.#connectionOf(tx) : writing
    if (!(tx instanceof DatabaseSync) && !(tx instanceof TransactionLease)) {
      throw new IchidoError('TX_FOREIGN', 'tx is neither a DatabaseSync nor the tx of a handler of this store.')
    }
    if (tx instanceof TransactionLease) tx.assertOpenOn(writing)
    if (!connection.inTransaction) throw new IchidoError('TX_FOREIGN', 'tx has no open transaction: begin one first.')
    const own = createWork(connection, host.clock.now(), host.build)
    const deliveries = new SqliteDeliveries(own)
    const accept = deliveries.accept.bind(deliveries)
    // Counters are written with each call: when the caller commits is the caller's affair.
    deliveries.accept = messages => {
      const acceptances = accept(messages)
      own.transitions.write(connection)
      return acceptances
    }
    return { deliveries }
  }

  claim(request: ClaimRequest): Promise<Claim> {
    return this.#write(work => claimDeliveries(work, request))
  }

  claimSuspect(request: ClaimRequest): Promise<Claim> {
    return this.#write(work => claimOneSuspect(work, request))
  }

  async suspects(consumers: readonly string[]): Promise<readonly string[]> {
    return this.#read(connection => consumers.filter(consumer => connection.get(hasSuspects, consumer)))
  }

  releaseAll(owner: string): Promise<number> {
    return this.#write(({ connection }) => connection.run(loops.releaseOwned, owner))
  }

  register({ incarnation, host, pid, consumers, build }: ProcessInfo): Promise<void> {
    return this.#write(({ connection, now }) => {
      connection.run(loops.registerProcess, incarnation, host, pid, JSON.stringify(consumers), build, now, now)
    })
  }

  async heartbeat(incarnation: string, beatMs: number, onLost: () => void): Promise<Heartbeat> {
    const { host } = this.#open()
    if (this.#path !== ':memory:' && !host.clock.virtual)
      return startHeartbeatThread(host, this.#path, incarnation, beatMs, onLost)
    const beatOnce = () => this.#write(({ connection, now }) => connection.run(loops.beat, now, null, incarnation) > 0)
    return startLocalHeartbeat(host, beatMs, beatOnce, onLost)
  }

  leave(incarnation: string): Promise<void> {
    return this.#write(({ connection, now }) => {
      connection.run(loops.leaveProcess, now, incarnation)
    })
  }

  onWork(wake: (consumer: string | null) => void): () => void {
    return (this.#wakeup as Wakeup).listen(wake)
  }

  audit(action: string, target: string, by: Actor, details: Readonly<Record<string, unknown>>): Promise<void> {
    return this.#write(({ connection, now }) =>
      writeAudit(connection, now, by.actor, by.reason, action, target, details),
    )
  }

  get #clock() {
    return this.#open().host.clock
  }

  #open() {
    const [host, writing, reading, writer] = [this.#host, this.#writing, this.#reading, this.#writer]
    if (!host || !writing || !reading || !writer) throw new IchidoError('CLOSED', 'The store is not open.')
    return { host, writing, reading, writer }
  }

  #connectionOf(database: DatabaseSync): Connection {
    const known = this.#joined.get(database)
    if (known) return known
    const connection = new Connection(database)
    this.#joined.set(database, connection)
    return connection
  }

  /** Work of ichido's own in a transaction; it is synchronous, so nothing needs guarding. */
  async #write<T>(work: (work: TransactionWork) => T): Promise<T> {
    const { writer, host } = this.#open()
    const woken = new Set<string>()
    const result = await writer.run(connection => {
      const own = createWork(connection, host.clock.now(), host.build)
      const value = work(own)
      own.transitions.write(connection)
      for (const consumer of own.woken) woken.add(consumer)
      return value
    })
    for (const consumer of woken) this.#wakeup?.ring(consumer)
    return result
  }

  async #read<T>(read: (connection: Connection) => T): Promise<T> {
    const { reading, writing, writer } = this.#open()
    // In memory there is one connection, and what others have not committed yet must not be seen on it.
    if (reading === writing) return writer.run(read)
    try {
      reading.run('begin')
      try {
        return read(reading)
      } finally {
        reading.run('commit')
      }
    } catch (error) {
      throw translate(error)
    }
  }
}

async function savepoint<T>(
  { connection, transitions }: TransactionWork,
  inner: () => Awaitable<T>,
  isOver: () => boolean,
): Promise<T> {
  const mark = transitions.mark()
  connection.run('savepoint ichido_handler')
  try {
    const value = await inner()
    connection.run('release ichido_handler')
    return value
  } catch (error) {
    transitions.undoTo(mark)
    // The transaction that is open now may be somebody else's.
    if (!isOver() && connection.inTransaction) {
      connection.run('rollback to ichido_handler')
      connection.run('release ichido_handler')
    }
    throw error
  }
}

function readSubscriptions(connection: Connection): Subscription[] {
  return connection
    .all<{ consumer: string; topic: string; types: string; fingerprint: string }>(loops.selectSubscriptions)
    .map(row => {
      return { ...row, types: JSON.parse(row.types) }
    })
}

function connect(path: string, readOnly: boolean): Connection {
  const database = new DatabaseSync(path, { timeout: 5_000, enableForeignKeyConstraints: false, readOnly })
  // The journal mode belongs to the file, which may be somebody else's when an operator mistypes a path.
  if (!readOnly) database.exec('pragma journal_mode = wal')
  database.exec('pragma synchronous = full; pragma temp_store = memory; pragma cache_size = -16000')
  // From here on nobody waits inside SQLite: that would block the loop. The writer asks again by itself.
  database.exec('pragma busy_timeout = 0')
  return new Connection(database)
}

function checkVersion(): void {
  const version = process.versions.sqlite ?? '0'
  const parts = version.split('.').map(Number)
  const difference = OLDEST_SQLITE.map((part, index) => (parts[index] ?? 0) - part).find(part => part !== 0) ?? 0
  if (difference < 0)
    throw new IchidoError(
      'SQLITE_TOO_OLD',
      `This Node has SQLite ${version}; 3.51.3 mended a fault that can corrupt a WAL database.`,
    )
}

/** `data_version` changes when another connection has committed. */
function changeDetector(connection: Connection): () => boolean {
  const version = () => connection.get<{ data_version: number }>('pragma data_version')?.data_version
  let last = version()
  return () => {
    if (!connection.database.isOpen) return false
    const current = version()
    const changed = current !== last
    last = current
    return changed
  }
}
