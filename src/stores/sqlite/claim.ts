import type { Claim, ClaimRequest, Delivery } from '../../contracts/deliveries.ts'
import type { Connection } from './connection.ts'
import {
  isAlive,
  markBehind,
  nextEpoch,
  promoteDelayed,
  promoteRetries,
  selectDue,
  selectFirstOfKey,
  selectNextDue,
  selectSuspects,
  selectWindow,
  takeDelivery,
  takeSuspect,
} from './queries.ts'
import { type DeliveryRow, toDelivery } from './rows.ts'
import { type TransactionWork, takeFrom } from './work.ts'

const LARGEST_WINDOW = 1_600

/** Waiting states: what stands in them holds its key, and will be ended or promoted by somebody who then lets the followers go. */
const waiting = new Set(['retry', 'dead', 'version', 'suspect', 'behind'])

export function epochOf(connection: Connection): number {
  return (connection.get<{ epoch: number }>(nextEpoch) as { epoch: number }).epoch
}

/** One writer at a time: what this transaction reads cannot change before it commits, so the hole rule needs no locks here. */
export function claimDeliveries(work: TransactionWork, request: ClaimRequest): Claim {
  const { connection, now } = work
  const nothing: Claim = { deliveries: [], epoch: 0, nextDueInMs: null }
  if (!connection.get(isAlive, request.owner)) return nothing
  promoteDue(work, request.consumer)
  const rows = findClaimable(connection, request)
  if (rows.length === 0) {
    const next = connection.get<{ due_at: number }>(selectNextDue, request.consumer)
    return { ...nothing, nextDueInMs: next ? Math.max(0, next.due_at - now) : null }
  }
  const epoch = epochOf(connection)
  for (const row of rows) connection.run(takeDelivery, request.owner, epoch, now, row.id)
  return { deliveries: rows.map(row => toDelivery(row, now, false)), epoch, nextDueInMs: null }
}

/** A retry keeps its place; a delayed delivery enters the order now, at its end. */
function promoteDue(work: TransactionWork, consumer: string): void {
  const due = work.connection.all<{ id: number; state: string }>(selectDue, consumer, work.now)
  if (due.length === 0) return
  let { pos } = takeFrom(work, due.length, 0)
  for (const row of due) {
    if (row.state === 'retry') work.connection.run(promoteRetries, row.id)
    else work.connection.run(promoteDelayed, pos++, row.id)
  }
}

function findClaimable(connection: Connection, request: ClaimRequest): DeliveryRow[] {
  let from = 0
  for (let size = request.max; ; size = Math.min(size * 4, LARGEST_WINDOW)) {
    const window = connection.all<DeliveryRow>(selectWindow, request.consumer, from, size)
    const takeable = window.some(row => row.key !== null) ? applyHoleRule(connection, request.consumer, window) : window
    if (takeable.length > 0) return cut(takeable, request)
    if (window.length < size) return []
    from = (window[window.length - 1] as DeliveryRow).pos + 1
  }
}

/**
 * Of each key only what stands before its first unfinished row outside the window. If that row is leased, nothing of the key: two handlers
 * of one key never run at once. If it waits, the followers are marked, so that no later claim walks over them.
 */
function applyHoleRule(connection: Connection, consumer: string, window: readonly DeliveryRow[]): DeliveryRow[] {
  const counts = new Map<string, number>()
  for (const { key } of window) if (key !== null) counts.set(key, (counts.get(key) ?? 0) + 1)
  const inWindow = new Set(window.map(row => row.id))
  const holes = new Map<string, { pos: number; leased: boolean; waits: boolean }>()
  for (const [key, count] of counts) {
    const first = connection.all<{ id: number; pos: number; state: string; owner: string | null }>(
      selectFirstOfKey,
      consumer,
      key,
      count + 1,
    )
    const hole = first.find(row => !inWindow.has(row.id))
    if (hole) holes.set(key, { pos: hole.pos, leased: hole.owner !== null, waits: waiting.has(hole.state) })
  }
  return window.filter(row => {
    const hole = row.key === null ? undefined : holes.get(row.key)
    if (!hole) return true
    if (hole.waits && row.pos > hole.pos) connection.run(markBehind, row.id)
    return !hole.leased && row.pos < hole.pos
  })
}

function cut(rows: readonly DeliveryRow[], request: ClaimRequest): DeliveryRow[] {
  let bytes = 0
  const count = rows.findIndex((row, index) => {
    bytes += row.body.length
    return index > 0 && (index >= request.max || bytes > request.maxBytes)
  })
  return count < 0 ? rows.slice(0, request.max) : rows.slice(0, count)
}

/** The first suspect whose key has nothing unfinished before it. It is claimed alone, by a process that runs nothing else. */
export function claimOneSuspect(work: TransactionWork, request: ClaimRequest): Claim {
  const { connection, now } = work
  if (!connection.get(isAlive, request.owner)) return { deliveries: [], epoch: 0, nextDueInMs: null }
  for (const row of connection.all<DeliveryRow>(selectSuspects, request.consumer)) {
    if (row.key !== null) {
      const first = connection.get<{ id: number }>(selectFirstOfKey, request.consumer, row.key, 1)
      if (first && first.id !== row.id) continue
    }
    const epoch = epochOf(connection)
    connection.run(takeSuspect, request.owner, epoch, now, row.id)
    const delivery: Delivery = toDelivery(row, now, true)
    return { deliveries: [delivery], epoch, nextDueInMs: null }
  }
  return { deliveries: [], epoch: 0, nextDueInMs: null }
}
