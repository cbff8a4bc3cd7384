import type { Actor } from '../../contracts/cases.ts'
import type { Awaitable, Claim, ClaimRequest } from '../../contracts/deliveries.ts'
import { IchidoError } from '../../contracts/errors.ts'
import { defaults } from '../../contracts/limits.ts'
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
  TransactionOptions,
} from '../../contracts/store.ts'
import { checkApplied, pending, readMigrations } from '../migrator.ts'
import { Claims, claimOneSuspect } from './claim.ts'
import { type PgClient, type PgPool, Statements, translate } from './client.ts'
import { Connections } from './connections.ts'
import { PostgresDeliveries } from './deliveries.ts'
import { diagnose } from './diagnose.ts'
import { clonableOptions, startHeartbeatThread, startLocalHeartbeat } from './heartbeat.ts'
import { Listener } from './listen.ts'
import { PostgresMaintenance } from './maintenance.ts'
import { hasSuspects, insertAudit, ringBell } from './queries.ts'
import * as loops from './queries-maintenance.ts'
import { PostgresReads } from './reads.ts'
import { applyNext, readApplied } from './schema.ts'
import { runTransaction } from './transaction.ts'
import { type PostgresTx, TransactionLease } from './tx.ts'
import { type TransactionWork, Transitions } from './work.ts'

export type { PgClient, PgPool, PostgresTx }

export interface PostgresOptions {
  /** False behind a pooler that does not keep prepared statements. Default true. */
  readonly preparedStatements?: boolean
  /** False: no LISTEN, polling only. Default true. */
  readonly listen?: boolean
}

const migrations = readMigrations(new URL('./migrations/', import.meta.url))

/** The store beside the user's own tables, in the schema `ichido`, on a pool of `pg` that stays the user's. */
export function postgres(pool: PgPool, options: PostgresOptions = {}): PostgresStore {
  return new PostgresStore(pool, options)
}

export class PostgresStore implements Store<PostgresTx, PostgresTx | PgClient> {
  readonly name = 'postgres'
  readonly facts = { writers: 'many', concurrency: 4, batchBudgetMs: 250, chainsClaims: false } as const
  readonly migratesAtStart = false
  readonly reads: Reads
  readonly maintenance: Maintenance
  readonly #pool: PgPool
  readonly #options: PostgresOptions
  #host: StoreHost | null = null
  #connections: Connections | null = null
  #claims: Claims | null = null
  #listener: Listener | null = null
  #serverVersion = 0

  constructor(pool: PgPool, options: PostgresOptions) {
    this.#pool = pool
    this.#options = options
    this.reads = new PostgresReads(
      read => this.#read(read),
      () => this.now(),
      () =>
        this.#open().connections.use(sql =>
          diagnose(sql, {
            localNow: () => this.#open().host.clock.now(),
            threadedHeartbeat: clonableOptions(this.#pool) !== null,
            poolSize: (this.#pool.options as { max?: number } | undefined)?.max ?? null,
            wantedConnections: this.facts.concurrency + 2,
          }),
        ),
    )
    this.maintenance = new PostgresMaintenance(work => this.#write(work))
  }

  async open(host: StoreHost): Promise<void> {
    if (this.#host) throw new IchidoError('INVALID_CONFIG', 'The store is open already: one start per store object.')
    const connections = new Connections(this.#pool, this.#options.preparedStatements !== false, host)
    try {
      const server = await connections.use(sql =>
        sql.get<{ version: number }>(`select current_setting('server_version_num')::int as version`),
      )
      this.#serverVersion = server?.version ?? 0
    } catch (error) {
      connections.close()
      throw error
    }
    this.#host = host
    this.#connections = connections
    this.#claims = new Claims(host.clock)
    this.#listener = new Listener(connections, host)
  }

  async close(): Promise<void> {
    await this.#listener?.close()
    this.#connections?.close()
    this.#host = null
    this.#connections = null
  }

  async now(): Promise<number> {
    const { host, connections } = this.#open()
    if (host.clock.virtual) return host.clock.now()
    const row = await connections.use(sql =>
      sql.get<{ now: number }>('select round(extract(epoch from clock_timestamp()) * 1000)::float8 as now'),
    )
    return row?.now as number
  }

  async pendingMigrations(): Promise<readonly Migration[]> {
    return this.#open().connections.use(async sql => pending(migrations, (await readApplied(sql)) ?? []))
  }

  async migrate(): Promise<readonly Migration[]> {
    const applied: Migration[] = []
    for (;;) {
      const done = await this.#open().connections.use(sql => applyNext(sql, migrations))
      if (!done) return applied
      applied.push(done)
    }
  }

  async checkSchema(): Promise<void> {
    checkApplied(migrations, await this.#open().connections.use(readApplied))
  }

  async subscribe(subscriptions: readonly Subscription[], accept: boolean): Promise<void> {
    await this.#write(async ({ sql, now }) => {
      const known = await sql.all<Subscription>(loops.selectSubscriptions)
      for (const { consumer, topic, types, fingerprint } of subscriptions) {
        const own = known.filter(other => other.consumer === consumer)
        if (!accept && own.length > 0 && own.some(other => other.fingerprint !== fingerprint)) {
          throw new IchidoError(
            'CONSUMER_CHANGED',
            `The consumer ${consumer} has other topics, order, grade or onDead than before.`,
          )
        }
        await sql.run(loops.upsertSubscription, consumer, topic, types, fingerprint, now)
      }
    })
  }

  async subscriptions(): Promise<readonly Subscription[]> {
    return this.#open().connections.use(sql => sql.all<Subscription>(loops.selectSubscriptions))
  }

  transaction<T>(work: (session: Session<PostgresTx>) => Awaitable<T>, options: TransactionOptions = {}): Promise<T> {
    return runTransaction(this.#open().connections, this.#settings(options.timeoutMs), session => work(session))
  }

  join(tx: PostgresTx | PgClient): Pick<Session<PostgresTx>, 'deliveries'> {
    const { host } = this.#open()
    const client = tx instanceof TransactionLease ? tx.client : (tx as PgClient)
    refuseForeign(tx, client)
    const sql = new Statements(client, this.#options.preparedStatements !== false)
    let rung = false
    const ring = () => {
      rung = true
    }
    const own: TransactionWork = { sql, transitions: new Transitions(), now: this.#now(), build: host.build, ring }
    const deliveries = new PostgresDeliveries(own)
    const accept = deliveries.accept.bind(deliveries)
    // Counters are written with each call: when the caller commits is the caller's affair.
    deliveries.accept = async messages => {
      const acceptances = await accept(messages)
      await own.transitions.write(sql)
      // When the caller commits is not known here, so the hint rides in his transaction.
      if (rung) await sql.run(ringBell)
      return acceptances
    }
    return { deliveries }
  }

  claim(request: ClaimRequest): Promise<Claim> {
    const { connections } = this.#open()
    return (this.#claims as Claims).claim(work => connections.use(work), request, this.#now())
  }

  claimSuspect(request: ClaimRequest): Promise<Claim> {
    return this.#write(({ sql, now }) => claimOneSuspect(sql, request, now))
  }

  async suspects(consumers: readonly string[]): Promise<readonly string[]> {
    const rows = await this.#open().connections.use(sql => sql.all<{ name: string }>(hasSuspects, consumers))
    return rows.map(row => row.name)
  }

  releaseAll(owner: string): Promise<number> {
    return this.#write(({ sql }) => sql.run(loops.releaseOwned, owner))
  }

  async register({ incarnation, host, pid, consumers, build }: ProcessInfo): Promise<void> {
    await this.#write(({ sql, now }) => sql.run(loops.registerProcess, incarnation, host, pid, consumers, build, now))
  }

  async heartbeat(incarnation: string, beatMs: number, onLost: () => void): Promise<Heartbeat> {
    const { host } = this.#open()
    const options = clonableOptions(this.#pool)
    if (options && !host.clock.virtual) return startHeartbeatThread(host, options, incarnation, beatMs, onLost)
    return startLocalHeartbeat(
      host,
      beatMs,
      () => this.#write(async ({ sql, now }) => (await sql.run(loops.beat, incarnation, now)) > 0),
      onLost,
    )
  }

  async leave(incarnation: string): Promise<void> {
    await this.#write(({ sql, now }) => sql.run(loops.leaveProcess, incarnation, now))
  }

  onWork(wake: (consumer: string | null) => void): () => void {
    return (this.#listener as Listener).add(wake, this.#options.listen !== false)
  }

  async audit(action: string, target: string, by: Actor, details: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#write(({ sql, now }) =>
      sql.run(insertAudit, by.actor, by.reason, action, target, JSON.stringify(details), now),
    )
  }

  #open() {
    if (!this.#host || !this.#connections) throw new IchidoError('CLOSED', 'The store is not open.')
    return { host: this.#host, connections: this.#connections }
  }

  /** Null: the server's clock decides. */
  #now(): Date | null {
    const { clock } = this.#open().host
    return clock.virtual ? new Date(clock.now()) : null
  }

  #settings(timeoutMs: number = defaults.timeoutMs) {
    const { build } = this.#open().host
    const onRung = () => this.#listener?.announce()
    return { timeoutMs, now: this.#now(), build, serverVersion: this.#serverVersion, onRung }
  }

  /** Work of ichido's own in a transaction. */
  #write<T>(work: (work: TransactionWork) => Promise<T>): Promise<T> {
    return runTransaction(this.#open().connections, this.#settings(), (_, own) => work(own))
  }

  /** One snapshot for all statements of an answer. */
  #read<T>(read: (sql: Statements) => Promise<T>): Promise<T> {
    return this.#open().connections.use(async sql => {
      try {
        await sql.client.query('begin isolation level repeatable read read only')
        const value = await read(sql)
        await sql.client.query('commit')
        return value
      } catch (error) {
        throw translate(error)
      }
    })
  }
}

/** A pool would run each statement on another connection; a client without a transaction would commit each by itself. */
function refuseForeign(tx: unknown, client: PgClient): void {
  const isPool = (client as { totalCount?: unknown } | null)?.totalCount !== undefined
  if (typeof client?.query !== 'function' || isPool)
    throw new IchidoError('TX_FOREIGN', 'tx is not a client of pg: pass the client that runs your transaction.')
  if (tx instanceof TransactionLease && tx.closed)
    throw new IchidoError('TX_CLOSED', 'tx was used after the handler had settled.')
  const status = client.getTransactionStatus?.()
  if (status === 'I') throw new IchidoError('TX_FOREIGN', 'tx has no open transaction: begin one first.')
  if (status === 'E')
    throw new IchidoError('TX_FOREIGN', 'The transaction of tx was aborted by a failed statement: roll it back.')
}
