import type {
  DeadLetter,
  DeadLetterPage,
  DeadLetterQuery,
  DeliveryName,
  Payload,
  Trace,
  TraceAttempt,
} from '../../contracts/cases.ts'
import type {
  ConsumerStatus,
  Counters,
  Finding,
  LedgerSnapshot,
  LedgerSweep,
  StoreStatus,
} from '../../contracts/ledger.ts'
import type { CertaintyLabel, DeliveryState, ErrorClass, IdentityState } from '../../contracts/outcome.ts'
import type { Reads } from '../../contracts/store.ts'
import type { Connection } from './connection.ts'
import * as q from './queries-reads.ts'

type Snapshot = <T>(read: (connection: Connection) => T) => Promise<T>

interface StateCount {
  readonly consumer: string
  readonly state: DeliveryState
  readonly leased: number
  readonly n: number
}

interface ProcessCount {
  readonly consumer: string
  readonly n: number
  readonly beat_at: number
}

const states: readonly DeliveryState[] = ['ready', 'delayed', 'retry', 'behind', 'version', 'suspect', 'dead', 'passed']

export class SqliteReads implements Reads {
  readonly #read: Snapshot
  readonly #now: () => number
  readonly #diagnose: () => Promise<readonly Finding[]>

  constructor(read: Snapshot, now: () => number, diagnose: () => Promise<readonly Finding[]>) {
    this.#read = read
    this.#now = now
    this.#diagnose = diagnose
  }

  status(): Promise<StoreStatus> {
    return this.#read(connection => {
      const counts = connection.all<StateCount>(q.countStates)
      const counters = new Map(readCounters(connection).map(row => [row.consumer, row]))
      const processes = new Map(connection.all<ProcessCount>(q.countProcesses).map(row => [row.consumer, row]))
      const consumers = connection
        .all<{ consumer: string; topics: string }>(q.selectConsumers)
        .map(({ consumer, topics }): ConsumerStatus => {
          const own = counts.filter(row => row.consumer === consumer)
          const sum = (state: DeliveryState, leased: number) =>
            own.find(row => row.state === state && row.leased === leased)?.n ?? 0
          return {
            consumer,
            topics: JSON.parse(topics),
            states: Object.fromEntries(states.map(state => [state, sum(state, 0)])) as Record<DeliveryState, number>,
            inProgress: sum('ready', 1),
            oldestAt: connection.get<{ at: number | null }>(q.selectOldest, consumer)?.at ?? null,
            processes: processes.get(consumer)?.n ?? 0,
            beatAt: processes.get(consumer)?.beat_at ?? null,
            counters: counters.get(consumer) ?? noCounters(consumer),
          }
        })
      return { now: this.#now(), consumers, kept: countOf(connection, q.countKept) }
    })
  }

  ledger(sweep = false): Promise<LedgerSnapshot> {
    return this.#read(connection => {
      const unfinished = new Map<string, { consumer: string; state: DeliveryState; count: number }>()
      for (const { consumer, state, n } of connection.all<StateCount>(q.countStates)) {
        const name = `${consumer}\n${state}`
        unfinished.set(name, { consumer, state, count: (unfinished.get(name)?.count ?? 0) + n })
      }
      return {
        counters: readCounters(connection),
        unfinished: [...unfinished.values()],
        openIdentities: connection
          .all<{ consumer: string; n: number }>(q.countOpen)
          .map(({ consumer, n }) => ({ consumer, count: n })),
        kept: countOf(connection, q.countKept),
        ...(sweep && { sweep: countIdentities(connection) }),
      }
    })
  }

  sweep(): Promise<LedgerSweep> {
    return this.#read(countIdentities)
  }

  trace(id: string): Promise<readonly Trace[]> {
    return this.#read(connection => [
      ...connection.all<TraceRow>(q.traceDeliveries, id).map(row => toTrace(connection, row)),
      ...connection.all<KeptRow>(q.traceKept, id).map(keptTrace),
    ])
  }

  deadLetters(query: DeadLetterQuery): Promise<DeadLetterPage> {
    return this.#read(connection => {
      const filter = [query.consumer ?? null, query.id ?? null, query.code ?? null] as const
      const after = [query.after?.openedAt ?? -1, query.after?.ref ?? -1] as const
      const rows = connection.all<LetterRow>(q.selectDeadLetters, ...filter, ...after, query.limit)
      const total = connection.get<{ n: number }>(q.countDeadLetters, ...filter)?.n ?? 0
      return { letters: rows.map(row => toLetter(connection, row)), total }
    })
  }

  payload(name: DeliveryName): Promise<Payload | null> {
    return this.#read(connection => {
      const found =
        name.consumer === ''
          ? connection.get<Payload>(q.selectKeptPayload, name.topic, name.id)
          : connection.get<Payload>(q.selectPayload, name.consumer, name.topic, name.id)
      return found ? { headers: found.headers, body: found.body } : null
    })
  }

  diagnose(): Promise<readonly Finding[]> {
    return this.#diagnose()
  }
}

function countIdentities(connection: Connection): LedgerSweep {
  const rows = connection.all<{ consumer: string; state: IdentityState; n: number }>(q.countIdentities)
  return rows.map(({ consumer, state, n }) => ({ consumer, state, count: n }))
}

function countOf(connection: Connection, sql: string): number {
  return connection.get<{ n: number }>(sql)?.n ?? 0
}

function readCounters(connection: Connection): Counters[] {
  return connection.all<Record<string, number | string>>(q.selectCounters).map(row => {
    const { fanned_out, ...rest } = row
    return { ...rest, fannedOut: fanned_out } as unknown as Counters
  })
}

function noCounters(consumer: string): Counters {
  const zero = {
    sent: 0,
    resent: 0,
    fannedOut: 0,
    kept: 0,
    accepted: 0,
    custody: 0,
    done: 0,
    duplicate: 0,
    ignored: 0,
    stale: 0,
  }
  return { consumer, ...zero, replaced: 0, expired: 0, discarded: 0, dead: 0, repeats: 0, retried: 0, purged: 0 }
}

interface TraceRow {
  readonly consumer: string
  readonly topic: string
  readonly message_id: string
  readonly ended: IdentityState
  readonly accepted_at: number
  readonly finished_at: number | null
  readonly finished_attempts: number
  readonly state: DeliveryState | null
  readonly owner: string | null
  readonly attempts: number | null
  readonly deaths: number | null
  readonly cycle: number | null
  readonly due_at: number | null
}

function toTrace(connection: Connection, row: TraceRow): Trace {
  const attempts = connection.all<{
    cycle: number
    attempt: number
    planned_at: number | null
    started_at: number | null
    ended_at: number
    outcome: string
    code: string | null
    message: string | null
    build: string | null
  }>(q.traceAttempts, row.message_id, row.consumer, row.topic)
  const history = attempts.map(({ planned_at, started_at, ended_at, ...rest }): TraceAttempt => {
    return { ...rest, plannedAt: planned_at, startedAt: started_at, endedAt: ended_at }
  })
  return {
    consumer: row.consumer,
    topic: row.topic,
    id: row.message_id,
    state: row.ended,
    waiting: row.owner !== null ? 'in progress' : row.state,
    acceptedAt: row.accepted_at,
    finishedAt: row.finished_at,
    attempts: row.attempts ?? row.finished_attempts,
    deaths: row.deaths ?? 0,
    cycle: row.cycle ?? history.at(-1)?.cycle ?? 0,
    dueAt: row.due_at,
    history,
  }
}

interface KeptRow {
  readonly topic: string
  readonly message_id: string
  readonly sent_at: number
  readonly due_at: number | null
}

function keptTrace({ topic, message_id: id, sent_at: sentAt, due_at: dueAt }: KeptRow): Trace {
  const nothing = { finishedAt: null, attempts: 0, deaths: 0, cycle: 0, history: [] }
  return { consumer: '', topic, id, state: 'kept', waiting: null, acceptedAt: sentAt, dueAt, ...nothing }
}

interface LetterRow {
  readonly ref: number
  readonly consumer: string
  readonly topic: string
  readonly message_id: string
  readonly cycle: number
  readonly class: ErrorClass
  readonly code: string
  readonly message: string
  readonly stack: string | null
  readonly label: CertaintyLabel
  readonly build: string | null
  readonly attempts: number
  readonly opened_at: number
  readonly type: string | null
  readonly version: number | null
  readonly key: string | null
  readonly state: 'dead' | 'passed' | null
  readonly deaths: number | null
  readonly repeats: number | null
  readonly sent_at: number | null
  readonly body_bytes: number | null
  readonly kept_type: string | null
  readonly kept_version: number | null
  readonly kept_key: string | null
  readonly kept_sent_at: number | null
  readonly kept_bytes: number | null
}

function toLetter(connection: Connection, row: LetterRow): DeadLetter {
  const { ref, consumer, topic, cycle, code, message, stack, label, build, attempts } = row
  const delivery = connection.get<{ delivery_id: number }>(
    'select delivery_id from ichido_identity where consumer = ? and topic = ? and message_id = ?',
    consumer,
    topic,
    row.message_id,
  )
  const waits = row.state === 'dead' && row.key !== null && delivery
  return {
    ref,
    consumer,
    topic,
    id: row.message_id,
    type: row.type ?? row.kept_type ?? '',
    version: row.version ?? row.kept_version ?? 1,
    key: row.key ?? row.kept_key,
    state: row.state ?? 'kept',
    class: row.class,
    code,
    message,
    stack,
    label,
    build,
    attempts,
    deaths: row.deaths ?? 0,
    cycle,
    repeats: row.repeats ?? 0,
    sentAt: row.sent_at ?? row.kept_sent_at ?? 0,
    openedAt: row.opened_at,
    followers: waits
      ? (connection.get<{ n: number }>(q.countFollowers, consumer, row.key, delivery.delivery_id)?.n ?? 0)
      : 0,
    bodyBytes: row.body_bytes ?? row.kept_bytes ?? 0,
  }
}
