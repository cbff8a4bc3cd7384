import type { Counters, LedgerSnapshot, LedgerSweep } from '../contracts/ledger.ts'
import type { DeliveryState } from '../contracts/outcome.ts'

export type LedgerName = 'sender' | 'store queue' | 'receiver'

/** One side of a ledger that must equal another. */
export interface BookLine {
  readonly ledger: LedgerName
  /** `''` for the sender and the store's queue. */
  readonly consumer: string
  readonly rule: string
  readonly expected: number
  readonly found: number
  readonly balanced: boolean
}

export interface Books {
  readonly balanced: boolean
  readonly lines: readonly BookLine[]
}

/** A part of a sum, by its name. */
export interface Part {
  readonly name: string
  readonly count: number
}

const ends = ['done', 'duplicate', 'ignored', 'stale', 'replaced', 'expired', 'discarded'] as const

const waits: readonly DeliveryState[] = ['ready', 'retry', 'suspect', 'version', 'delayed', 'behind', 'dead', 'passed']

/** Deliveries that ended, by the counters. */
export function ended(counters: Counters): number {
  return ends.reduce((sum, end) => sum + counters[end], 0)
}

/** Where a consumer's accepted deliveries are: how they ended by the counters, and what is unfinished by the rows. Zeros are left out. */
export function partsOf(consumer: string, snapshot: LedgerSnapshot): Part[] {
  const counters = snapshot.counters.find(row => row.consumer === consumer)
  const finished = counters ? ends.map(name => ({ name, count: counters[name] })) : []
  const own = snapshot.unfinished.filter(row => row.consumer === consumer)
  const unfinished = waits.map(name => ({ name, count: own.find(row => row.state === name)?.count ?? 0 }))
  return [...finished, ...unfinished].filter(part => part.count !== 0)
}

/**
 * Compares counters, which every transaction adds to, with counts of the rows themselves, taken in the same snapshot. A difference means that
 * something was lost, doubled or changed by hand. With a sweep the finished identities are counted too; while work goes on it must be of the
 * same snapshot (`reads.ledger(true)`).
 */
export function checkBooks(taken: LedgerSnapshot, sweep: LedgerSweep | null = taken.sweep ?? null): Books {
  const snapshot = { ...taken, ...(sweep && { sweep }) }
  const receivers = snapshot.counters.filter(row => row.consumer !== '')
  const known = new Set(receivers.map(row => row.consumer))
  const lines = [
    ...checkSender(snapshot, receivers),
    ...receivers.flatMap(counters => checkReceiver(counters, snapshot)),
    ...checkStrangers(snapshot, known),
  ]
  return { balanced: lines.every(line => line.balanced), lines }
}

function compare(ledger: LedgerName, consumer: string, rule: string, expected: number, found: number): BookLine {
  return { ledger, consumer, rule, expected, found, balanced: expected === found }
}

function checkSender(snapshot: LedgerSnapshot, receivers: readonly Counters[]): BookLine[] {
  const sender = snapshot.counters.find(row => row.consumer === '')
  const fromQueue = receivers.reduce((sum, row) => sum + row.accepted - row.custody, 0)
  return [
    compare('sender', '', 'kept by the counters = kept messages', sender?.kept ?? 0, snapshot.kept),
    compare('store queue', '', 'fanned out = accepted from the queue', sender?.fannedOut ?? 0, fromQueue),
  ]
}

function checkReceiver(counters: Counters, snapshot: LedgerSnapshot): BookLine[] {
  const { consumer, accepted, dead, purged } = counters
  const own = snapshot.unfinished.filter(row => row.consumer === consumer)
  const unfinished = sum(own)
  const letters = sum(own.filter(row => row.state === 'dead' || row.state === 'passed'))
  const open = sum(snapshot.openIdentities.filter(row => row.consumer === consumer))
  const lines = [
    compare('receiver', consumer, 'accepted − ended = unfinished deliveries', accepted - ended(counters), unfinished),
    compare('receiver', consumer, 'open identities = unfinished deliveries', open, unfinished),
    compare('receiver', consumer, 'dead by the counters = dead letters', dead, letters),
  ]
  return snapshot.sweep ? [...lines, ...checkSweep(counters, purged, snapshot.sweep)] : lines
}

/** Each end by itself, as long as nothing was purged: the counter of purged identities does not tell how they had ended. */
function checkSweep(counters: Counters, purged: number, sweep: LedgerSweep): BookLine[] {
  const { consumer } = counters
  const finished = sweep.filter(row => row.consumer === consumer && row.state !== 'open')
  const total = compare(
    'receiver',
    consumer,
    'ended − purged = finished identities',
    ended(counters) - purged,
    sum(finished),
  )
  if (purged > 0) return [total]
  const each = ends
    .map(end =>
      compare(
        'receiver',
        consumer,
        `${end} by the counters = ${end} identities`,
        counters[end],
        sum(finished.filter(row => row.state === end)),
      ),
    )
    .filter(line => line.expected !== 0 || line.found !== 0)
  return [total, ...each]
}

/** Rows of a consumer that no counter knows. */
function checkStrangers(snapshot: LedgerSnapshot, known: ReadonlySet<string>): BookLine[] {
  const strangers = new Set([
    ...snapshot.unfinished.map(row => row.consumer),
    ...snapshot.openIdentities.map(row => row.consumer),
    ...(snapshot.sweep ?? []).map(row => row.consumer),
  ])
  return [...strangers]
    .filter(consumer => !known.has(consumer))
    .map(consumer => {
      const rows = [...snapshot.unfinished, ...(snapshot.sweep ?? snapshot.openIdentities)]
      return compare(
        'receiver',
        consumer,
        'rows of a consumer without counters',
        0,
        sum(rows.filter(row => row.consumer === consumer)),
      )
    })
}

function sum(rows: readonly { readonly count: number }[]): number {
  return rows.reduce((total, row) => total + row.count, 0)
}
