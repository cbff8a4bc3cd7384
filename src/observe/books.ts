import type { Counters, LedgerSnapshot, LedgerSweep } from '../contracts/ledger.ts'

/** One side of a ledger that must equal another. */
export interface BookLine {
  readonly ledger: 'sender' | 'receiver' | 'store queue'
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

/** Deliveries that ended, by the counters. */
export function ended(counters: Counters): number {
  const { done, duplicate, ignored, stale, replaced, expired, discarded } = counters
  return done + duplicate + ignored + stale + replaced + expired + discarded
}

/**
 * Compares counters, which every transaction adds to, with counts of the rows themselves, taken in the same snapshot. A difference means that
 * something was lost, doubled or changed by hand. With a sweep the finished identities are counted too, which reads them all.
 */
export function checkBooks(snapshot: LedgerSnapshot, sweep: LedgerSweep | null = null): Books {
  const sender = snapshot.counters.find(row => row.consumer === '')
  const receivers = snapshot.counters.filter(row => row.consumer !== '')
  const lines: BookLine[] = []
  const compare = (ledger: BookLine['ledger'], consumer: string, rule: string, expected: number, found: number) => {
    lines.push({ ledger, consumer, rule, expected, found, balanced: expected === found })
  }
  compare('sender', '', 'kept by the counters = kept messages', sender?.kept ?? 0, snapshot.kept)
  for (const counters of receivers) {
    const { consumer, accepted, dead, purged } = counters
    const own = snapshot.unfinished.filter(row => row.consumer === consumer)
    const count = (test: (state: string) => boolean) =>
      own.filter(row => test(row.state)).reduce((sum, row) => sum + row.count, 0)
    const unfinished = count(() => true)
    compare('receiver', consumer, 'accepted − ended = unfinished deliveries', accepted - ended(counters), unfinished)
    compare(
      'receiver',
      consumer,
      'dead by the counters = dead letters',
      dead,
      count(state => state === 'dead' || state === 'passed'),
    )
    const open = snapshot.openIdentities.find(row => row.consumer === consumer)?.count ?? 0
    compare('receiver', consumer, 'open identities = unfinished deliveries', open, unfinished)
    if (!sweep) continue
    const finished = sweep
      .filter(row => row.consumer === consumer && row.state !== 'open')
      .reduce((sum, row) => sum + row.count, 0)
    compare('receiver', consumer, 'ended − purged = finished identities', ended(counters) - purged, finished)
  }
  const strangers = snapshot.unfinished.filter(row => !receivers.some(counters => counters.consumer === row.consumer))
  for (const { consumer, count } of strangers)
    compare('receiver', consumer, 'unfinished deliveries of a consumer without counters', 0, count)
  const fromQueue = receivers.reduce((sum, row) => sum + row.accepted - row.custody, 0)
  compare('store queue', '', 'fanned out = accepted from the store’s queue', sender?.fannedOut ?? 0, fromQueue)
  return { balanced: lines.every(line => line.balanced), lines }
}
