import type { Counters, LedgerSnapshot, LedgerSweep } from '../../contracts/ledger.ts'

/** Every sentence that does not add up; empty when the books balance. Written apart from `observe/books.ts`, so that one checks the other. */
export function imbalances(snapshot: LedgerSnapshot, sweep: LedgerSweep): string[] {
  const faults: string[] = []
  const equal = (what: string, left: number, right: number) => {
    if (left !== right) faults.push(`${what}: ${left} ≠ ${right}`)
  }
  const receivers = snapshot.counters.filter(row => row.consumer !== '')
  for (const row of receivers) checkReceiver(row, snapshot, sweep, equal)
  const sender = snapshot.counters.find(row => row.consumer === '')
  equal('kept messages', sender?.kept ?? 0, snapshot.kept)
  const expected = receivers.reduce((sum, row) => sum + row.accepted - row.custody, 0)
  equal('fanned out = accepted − custody', sender?.fannedOut ?? 0, expected)
  const counted = new Set(receivers.map(row => row.consumer))
  for (const { consumer } of [...snapshot.unfinished, ...snapshot.openIdentities]) {
    if (!counted.has(consumer)) faults.push(`${consumer} has deliveries and no counters`)
  }
  return faults
}

function checkReceiver(
  row: Counters,
  snapshot: LedgerSnapshot,
  sweep: LedgerSweep,
  equal: (what: string, left: number, right: number) => void,
): void {
  const own = snapshot.unfinished.filter(entry => entry.consumer === row.consumer)
  const unfinished = own.reduce((sum, entry) => sum + entry.count, 0)
  const open = snapshot.openIdentities.find(entry => entry.consumer === row.consumer)?.count ?? 0
  const ends = row.done + row.duplicate + row.ignored + row.stale + row.replaced + row.expired + row.discarded
  equal(`${row.consumer}: accepted = unfinished + ends`, row.accepted, unfinished + ends)
  equal(`${row.consumer}: open identities = unfinished`, open, unfinished)
  const letters = own.filter(entry => entry.state === 'dead' || entry.state === 'passed')
  equal(
    `${row.consumer}: dead letters`,
    row.dead,
    letters.reduce((sum, entry) => sum + entry.count, 0),
  )
  const finished = sweep.filter(entry => entry.consumer === row.consumer && entry.state !== 'open')
  equal(
    `${row.consumer}: finished identities = ends − purged`,
    finished.reduce((sum, entry) => sum + entry.count, 0),
    ends - row.purged,
  )
  if (row.purged > 0) return
  for (const { state, count } of finished) equal(`${row.consumer}: ${state}`, count, row[state as 'done'])
}
