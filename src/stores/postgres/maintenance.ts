import type { DeliveryName } from '../../contracts/cases.ts'
import type { Maintenance, Reaped } from '../../contracts/store.ts'
import { insertAttempt, openCase } from './queries.ts'
import * as q from './queries-maintenance.ts'
import type { TransactionWork } from './work.ts'

type Write = <T>(work: (work: TransactionWork) => Promise<T>) => Promise<T>

interface OwnedRow {
  readonly id: number
  readonly consumer: string
  readonly topic: string
  readonly message_id: string
  readonly solo: boolean
  readonly deaths: number
  readonly attempts: number
  readonly cycle: number
  readonly claimed_at: number | null
}

export class PostgresMaintenance implements Maintenance {
  readonly #write: Write

  constructor(write: Write) {
    this.#write = write
  }

  foldCounters(): Promise<void> {
    return this.#alone('fold', undefined, async work => {
      await work.sql.run(q.foldCounters)
    })
  }

  adoptKept(limit: number): Promise<number> {
    return this.#write(async work => {
      const rows = await work.sql.all<{ topic: string; message_id: string }>(q.selectAdoptable)
      const taken = rows.slice(0, limit)
      for (const { topic, message_id } of taken) {
        const consumers = await work.sql.all<{ consumer: string }>(q.adoptKept, topic, message_id, work.now)
        await work.sql.run(q.deleteKept, topic, message_id)
        await work.sql.run(q.closeKeptCase, topic, message_id, work.now)
        work.transitions.add('', 'kept', -1)
        work.transitions.add('', 'fannedOut', consumers.length)
        for (const { consumer } of consumers) work.transitions.add(consumer, 'accepted')
      }
      if (taken.length > 0) work.ring()
      return taken.length
    })
  }

  expireKept(keptMs: number): Promise<number> {
    return this.#write(async work => {
      const rows = await work.sql.all<{ topic: string; message_id: string }>(q.selectExpiredKept, keptMs, work.now)
      for (const { topic, message_id } of rows) {
        await work.sql.run(q.expireKept, topic, message_id, work.now)
        const text = 'No consumer has taken the topic while the message was kept.'
        await work.sql.run(
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
   * Raise the watermark and commit; wait for the longest transaction, since it may have read the old one; then delete. The wait is not slept
   * through here: while an older transaction is open this call deletes nothing, and the next turn asks again. Any other order lets a slow
   * custody write run a done message a second time (test/models/purge.ts).
   */
  async purge(consumer: string, retentionMs: number, _limit: number): Promise<number> {
    const before = await this.#deletePurgeable(consumer, retentionMs)
    if (before > 0) return before
    const raised = await this.#alone(`purge ${consumer}`, 0, work =>
      work.sql.run(q.raiseWatermark, consumer, retentionMs, work.now),
    )
    return raised > 0 ? this.#deletePurgeable(consumer, retentionMs) : 0
  }

  /** What ended before the watermark, if nobody can have read an older one. */
  #deletePurgeable(consumer: string, retentionMs: number): Promise<number> {
    return this.#alone(`purge ${consumer}`, 0, async work => {
      const older = await work.sql.get<{ n: number }>(q.countOlderTransactions, consumer)
      if ((older?.n ?? 0) > 0) return 0
      const deleted = await work.sql.run(q.purgeIdentities, consumer, retentionMs, work.now)
      if (deleted === 0) return 0
      await work.sql.run(q.purgeAttempts, consumer, retentionMs, work.now)
      work.transitions.add(consumer, 'purged', deleted)
      return deleted
    })
  }

  /** Lost processes are looked at again at every turn, until they are forgotten: a row that was locked before may be free now. */
  async reap(leaseMs: number, maxDeaths: number): Promise<readonly Reaped[]> {
    const { fresh, lost } = await this.#write(async work => {
      await work.sql.run(q.forgetProcesses, leaseMs, work.now)
      const rows = await work.sql.all<{ incarnation: string }>(q.markLost, leaseMs, work.now)
      const all = await work.sql.all<{ incarnation: string }>(q.selectLostProcesses, leaseMs, work.now)
      return { fresh: new Set(rows.map(row => row.incarnation)), lost: all }
    })
    const reaped: Reaped[] = []
    for (const { incarnation } of lost) {
      const one = await this.#write(work => reapOne(work, incarnation, maxDeaths))
      if (fresh.has(incarnation) || one.suspects + one.dead.length > 0) reaped.push(one)
    }
    return reaped
  }

  releaseVersions(consumer: string, known: Readonly<Record<string, number>>): Promise<number> {
    return this.#write(async work => {
      let count = 0
      for (const [type, version] of Object.entries(known))
        count += await work.sql.run(q.releaseVersions, consumer, type, version)
      if (count > 0) work.ring()
      return count
    })
  }

  clearSuspects(consumer: string): Promise<number> {
    return this.#write(async work => {
      const count = await work.sql.run(q.clearSuspects, consumer)
      if (count > 0) work.ring()
      return count
    })
  }

  /** One process at a time; the others leave it to him. */
  #alone<T>(what: string, otherwise: T, work: (work: TransactionWork) => Promise<T>): Promise<T> {
    return this.#write(async own => {
      const lock = await own.sql.get<{ mine: boolean }>(q.tryMaintenanceLock, what)
      if (!lock?.mine) return otherwise
      // Statistics are oldest right after a burst; a purge that has nothing to do must not read all that is remembered.
      await own.sql.run('set local enable_seqscan = off')
      return work(own)
    })
  }
}

/** A death alone counts for the message that was running; a death in company is charged to nobody. */
async function reapOne(work: TransactionWork, incarnation: string, maxDeaths: number): Promise<Reaped> {
  const dead: DeliveryName[] = []
  let suspects = 0
  for (const row of await work.sql.all<OwnedRow>(q.selectOwned, incarnation)) {
    const deaths = row.deaths + (row.solo ? 1 : 0)
    if (row.solo && deaths >= maxDeaths) {
      await bury(work, row, deaths)
      dead.push({ consumer: row.consumer, topic: row.topic, id: row.message_id })
    } else {
      await work.sql.run(q.suspectDelivery, row.id, deaths, row.attempts - (row.solo ? 0 : 1))
      suspects++
    }
    await recordDeath(work, row)
  }
  return { incarnation, suspects, dead }
}

async function recordDeath(work: TransactionWork, row: OwnedRow): Promise<void> {
  const { consumer, topic, message_id, cycle, attempts, claimed_at } = row
  const cause = ['system', 'PROCESS_LOST', 'The process died or was paused while it held the delivery.'] as const
  const outcome = row.solo ? 'died alone' : 'died'
  const times = [null, claimed_at, 10 ** 12] as const
  await work.sql.run(
    insertAttempt,
    consumer,
    topic,
    message_id,
    cycle,
    attempts,
    ...times,
    outcome,
    ...cause,
    work.now,
    work.build,
  )
}

async function bury(work: TransactionWork, row: OwnedRow, deaths: number): Promise<void> {
  const { consumer, topic, message_id: id, cycle } = row
  await work.sql.run(q.buryDelivery, row.id, deaths)
  const text = `The process died ${deaths} times while this message ran alone.`
  await work.sql.run(
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
