import type { DeliveryName } from '../../contracts/cases.ts'
import type { Clock } from '../../contracts/clock.ts'
import type { OutgoingMessage } from '../../contracts/message.ts'
import type { Maintenance, Reaped } from '../../contracts/store.ts'
import { deliver } from './accept.ts'
import type { Connection } from './connection.ts'
import { deleteKept, insertAttempt, insertAudit, openCase, selectAdoptable, subscribersOf } from './queries.ts'
import * as q from './queries-maintenance.ts'
import { type TransactionWork, takeFrom } from './work.ts'

type Write = <T>(work: (work: TransactionWork) => T) => Promise<T>

interface KeptRow {
  readonly row: number
  readonly topic: string
  readonly message_id: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  readonly pos: number
  readonly due_at: number | null
  readonly sent_at: number
  readonly headers: string
  readonly body: Uint8Array
  readonly hash: Uint8Array
  readonly replaces: string | null
}

interface OwnedRow {
  readonly id: number
  readonly consumer: string
  readonly topic: string
  readonly message_id: string
  readonly solo: number
  readonly deaths: number
  readonly attempts: number
  readonly cycle: number
  readonly claimed_at: number | null
}

/** A wall clock that moves this much against the monotonic one has jumped. */
const JUMP_MS = 1_000

export class SqliteMaintenance implements Maintenance {
  readonly #write: Write
  readonly #clock: () => Clock
  #drift: number | null = null
  #distrustUntil = 0

  constructor(write: Write, clock: () => Clock) {
    this.#write = write
    this.#clock = clock
  }

  /** One writer at a time keeps one row per consumer: there is nothing to fold. */
  async foldCounters(): Promise<void> {}

  adoptKept(limit: number): Promise<number> {
    return this.#write(work => {
      const rows = work.connection.all<KeptRow>(selectAdoptable, limit)
      for (const row of rows) adopt(work, row)
      return rows.length
    })
  }

  expireKept(keptMs: number): Promise<number> {
    return this.#write(work => {
      const rows = work.connection.all<{ topic: string; message_id: string }>(q.selectExpiredKept, work.now - keptMs)
      for (const { topic, message_id } of rows) {
        work.connection.run(q.expireKept, work.now, topic, message_id)
        const text = 'No consumer has taken the topic while the message was kept.'
        work.connection.run(
          openCase,
          '',
          topic,
          message_id,
          0,
          'system',
          'NO_CONSUMER',
          text,
          null,
          'never started',
          work.build,
          0,
          work.now,
        )
      }
      return rows.length
    })
  }

  /**
   * The watermark first, then the rows, each in a commit of its own. There is no transaction to wait for in between: a writer that read the
   * old watermark has ended before this one could begin.
   */
  async purge(consumer: string, retentionMs: number, limit: number): Promise<number> {
    // One cut for both: what ends between them is younger than the watermark.
    const endedBefore = this.#clock().now() - retentionMs
    const count = await this.#write(work => {
      const rows = work.connection.all<{ topic: string; at: number; n: number }>(
        q.selectPurgeable,
        consumer,
        endedBefore,
        limit,
      )
      for (const { topic, at } of rows) work.connection.run(q.raiseWatermark, consumer, topic, at)
      return rows.reduce((sum, row) => sum + row.n, 0)
    })
    if (count === 0) return 0
    return this.#write(work => {
      const deleted = work.connection.run(q.purgeIdentities, consumer, endedBefore, limit)
      work.connection.run(q.purgeAttempts, consumer, endedBefore, limit)
      work.transitions.add(consumer, 'purged', deleted)
      return deleted
    })
  }

  async reap(leaseMs: number, maxDeaths: number): Promise<readonly Reaped[]> {
    if (this.#hasJumped(leaseMs)) return []
    return this.#write(work => {
      work.connection.run(q.forgetProcesses, work.now - 10 * leaseMs)
      const lost = work.connection.all<{ incarnation: string }>(
        q.selectLostProcesses,
        work.now - leaseMs,
        work.now - leaseMs,
      )
      return lost.map(({ incarnation }) => {
        work.connection.run(q.markLost, work.now, incarnation)
        return reapOne(work, incarnation, maxDeaths)
      })
    })
  }

  /** Beats from before a jump tell nothing: for one lease, in which everybody alive beats again, nobody is taken for dead. */
  #hasJumped(leaseMs: number): boolean {
    const clock = this.#clock()
    const steady = clock.monotonic()
    const drift = clock.now() - steady
    if (this.#drift !== null && Math.abs(drift - this.#drift) > JUMP_MS) this.#distrustUntil = steady + leaseMs
    this.#drift = drift
    return steady < this.#distrustUntil
  }

  releaseVersions(consumer: string, known: Readonly<Record<string, number>>): Promise<number> {
    return this.#write(work => {
      let count = 0
      for (const [type, version] of Object.entries(known))
        count += work.connection.run(q.releaseVersions, consumer, type, version)
      if (count > 0) work.woken.add(consumer)
      return count
    })
  }

  clearSuspects(consumer: string): Promise<number> {
    return this.#write(work => {
      const count = work.connection.run(q.clearSuspects, consumer, consumer)
      if (count > 0) work.woken.add(consumer)
      return count
    })
  }
}

function adopt(work: TransactionWork, row: KeptRow): void {
  const { topic, message_id: id, type, version, key, headers, body, hash, replaces } = row
  const message: OutgoingMessage = {
    id,
    topic,
    type,
    version,
    key,
    headers,
    body,
    hash,
    sentAt: row.sent_at,
    dueAt: row.due_at,
    delayMs: null,
    replaces,
  }
  const consumers = work.connection.all<{ consumer: string }>(subscribersOf, topic)
  let fanOut = 0
  for (const { consumer } of consumers) {
    const { delivery } = takeFrom(work, 0, 1)
    if (deliver(work, consumer, { message, sentAt: row.sent_at, dueAt: row.due_at, pos: row.pos, ref: delivery }))
      fanOut++
  }
  work.connection.run(deleteKept, row.row)
  work.connection.run(q.closeKeptCase, work.now, topic, id)
  work.transitions.add('', 'kept', -1)
  work.transitions.add('', 'fannedOut', fanOut)
}

/** A death alone counts for the message that was running; a death in company is charged to nobody. */
export function reapOne(work: TransactionWork, incarnation: string, maxDeaths: number): Reaped {
  const dead: DeliveryName[] = []
  let suspects = 0
  for (const row of work.connection.all<OwnedRow>(q.selectOwned, incarnation)) {
    const deaths = row.deaths + row.solo
    if (row.solo === 1 && deaths >= maxDeaths) {
      bury(work, row, deaths)
      dead.push({ consumer: row.consumer, topic: row.topic, id: row.message_id })
    } else {
      work.connection.run(q.suspectDelivery, deaths, row.attempts - (row.solo === 1 ? 0 : 1), row.id)
      suspects++
    }
    recordDeath(work, row, row.solo === 1 ? 'died alone' : 'died')
  }
  return { incarnation, suspects, dead }
}

function recordDeath(work: TransactionWork, row: OwnedRow, outcome: string): void {
  const { consumer, topic, message_id, cycle, attempts, claimed_at } = row
  const cause = ['system', 'PROCESS_LOST', 'The process died or was paused while it held the delivery.'] as const
  work.connection.run(
    insertAttempt,
    consumer,
    topic,
    message_id,
    cycle,
    attempts,
    null,
    claimed_at,
    work.now,
    outcome,
    ...cause,
    work.build,
  )
}

function bury(work: TransactionWork, row: OwnedRow, deaths: number): void {
  const { consumer, topic, message_id: id, cycle } = row
  work.connection.run(q.buryDelivery, deaths, row.id)
  const text = `The process died ${deaths} times while this message ran alone.`
  work.connection.run(
    openCase,
    consumer,
    topic,
    id,
    cycle,
    'system',
    'KILLS_PROCESS',
    text,
    null,
    'unknown',
    work.build,
    row.attempts,
    work.now,
  )
  work.transitions.add(consumer, 'dead')
}

export function writeAudit(
  connection: Connection,
  now: number,
  actor: string,
  reason: string,
  action: string,
  target: string,
  details: unknown,
): void {
  connection.run(insertAudit, now, actor, reason, action, target, JSON.stringify(details))
}
