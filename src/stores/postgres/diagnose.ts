import type { Finding } from '../../contracts/ledger.ts'
import type { Statements } from './client.ts'

interface Facts {
  readonly version: string
  readonly fsync: string
  readonly full_page_writes: string
  readonly synchronous_commit: string
  readonly in_recovery: boolean
  readonly read_only: string
  readonly asynchronous_replicas: number
  readonly longest_seconds: number | null
  readonly longest_pid: number | null
  readonly now: number
}

const select = `select current_setting('server_version') as version, current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
  current_setting('synchronous_commit') as synchronous_commit, pg_is_in_recovery() as in_recovery, current_setting('transaction_read_only') as read_only,
  (select count(*)::int from pg_stat_replication where sync_state = 'async') as asynchronous_replicas, l.seconds as longest_seconds, l.pid as longest_pid,
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now
  from (select 1) one left join lateral (select extract(epoch from clock_timestamp() - xact_start)::float8 as seconds, pid from pg_stat_activity
    where datname = current_database() and xact_start is not null and pid <> pg_backend_pid() order by xact_start limit 1) l on true`

const LONG_TRANSACTION_SECONDS = 60

export interface Surroundings {
  readonly localNow: () => number
  readonly threadedHeartbeat: boolean
  /** Most connections of the pool, when it says so. */
  readonly poolSize: number | null
  /** Batches at once, and one connection each for LISTEN and maintenance. */
  readonly wantedConnections: number
}

export async function diagnose(sql: Statements, around: Surroundings): Promise<Finding[]> {
  const before = around.localNow()
  const facts = (await sql.get<Facts>(select)) as Facts
  const offsetMs = Math.round(facts.now - (before + around.localNow()) / 2)
  return [
    { name: 'PostgreSQL', value: facts.version, level: 'ok', note: null },
    ...durability(facts),
    longest(facts),
    judge(
      'clock offset',
      `${offsetMs} ms`,
      Math.abs(offsetMs) < 1_000,
      'warning',
      'Leases and due times follow the server; mend the clock of this machine.',
    ),
    judge(
      'pool size',
      String(around.poolSize ?? 'unknown'),
      around.poolSize === null || around.poolSize >= around.wantedConnections,
      'warning',
      `Batches wait for connections: give the pool \`max: ${around.wantedConnections}\` or more.`,
    ),
    judge(
      'heartbeat',
      around.threadedHeartbeat ? 'own thread' : 'main thread',
      around.threadedHeartbeat,
      'warning',
      'The pool’s options hold functions: a handler that blocks the loop for a lease looks dead.',
    ),
  ]
}

/** What a confirmed COMMIT rests on. */
function durability(facts: Facts): Finding[] {
  const { fsync, full_page_writes: fullPages, synchronous_commit: commits, read_only: readOnly } = facts
  const role = facts.in_recovery ? 'standby' : 'primary'
  const replicas = facts.asynchronous_replicas
  const crash = 'Confirmed sends can be lost when the server crashes: turn it on.'
  return [
    judge('fsync', fsync, fsync === 'on', 'critical', crash),
    judge('full_page_writes', fullPages, fullPages === 'on', 'critical', 'Pages can be torn by a crash: turn it on.'),
    judge(
      'synchronous_commit',
      commits,
      commits !== 'off',
      'critical',
      'A confirmed COMMIT can be lost: set it to on.',
    ),
    judge('role', role, !facts.in_recovery, 'critical', 'ichido needs the primary server.'),
    judge('read only', readOnly, readOnly === 'off', 'critical', 'Nothing can be recorded.'),
    judge(
      'asynchronous replicas',
      String(replicas),
      replicas === 0,
      'warning',
      'A failover to one can lose confirmed commits.',
    ),
  ]
}

function judge(name: string, value: string, good: boolean, level: 'warning' | 'critical', note: string): Finding {
  return good ? { name, value, level: 'ok', note: null } : { name, value, level, note }
}

function longest(facts: Facts): Finding {
  const seconds = facts.longest_seconds
  if (seconds === null) return { name: 'longest transaction', value: 'none', level: 'ok', note: null }
  const value = `${Math.round(seconds)} s (pid ${facts.longest_pid})`
  return judge(
    'longest transaction',
    value,
    seconds < LONG_TRANSACTION_SECONDS,
    'warning',
    'It keeps old rows alive and the purge waiting: look at it in pg_stat_activity.',
  )
}
