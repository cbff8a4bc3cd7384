import { expect, test } from 'vitest'
import type { Counters, LedgerSnapshot } from '../../src/contracts/ledger.ts'
import { checkBooks, partsOf } from '../../src/observe/books.ts'

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
const more = { replaced: 0, expired: 0, discarded: 0, dead: 0, repeats: 0, retried: 0, purged: 0 }

function counters(consumer: string, counts: Partial<Counters>): Counters {
  return { consumer, ...zero, ...more, ...counts }
}

/** Ten messages, nine of them to billing (one over a transport), one kept; a dead one, two that wait, one that was purged. */
const balanced: LedgerSnapshot = {
  counters: [
    counters('', { sent: 9, kept: 1, fannedOut: 8 }),
    counters('billing', { accepted: 9, custody: 1, done: 4, stale: 1, discarded: 1, dead: 1, purged: 1 }),
  ],
  unfinished: [
    { consumer: 'billing', state: 'ready', count: 1 },
    { consumer: 'billing', state: 'behind', count: 1 },
    { consumer: 'billing', state: 'dead', count: 1 },
  ],
  openIdentities: [{ consumer: 'billing', count: 3 }],
  kept: 1,
  sweep: [
    { consumer: 'billing', state: 'open', count: 3 },
    { consumer: 'billing', state: 'done', count: 3 },
    { consumer: 'billing', state: 'stale', count: 1 },
    { consumer: 'billing', state: 'discarded', count: 1 },
  ],
}

function differences(snapshot: LedgerSnapshot): string[] {
  const { balanced: equal, lines } = checkBooks(snapshot)
  const different = lines.filter(line => !line.balanced)
  expect(equal).toBe(different.length === 0)
  return different.map(line => `${line.ledger} ${line.consumer}: ${line.rule}, ${line.expected} and ${line.found}`)
}

function changed(consumer: string, counts: Partial<Counters>): LedgerSnapshot {
  const rows = balanced.counters.map(row => (row.consumer === consumer ? { ...row, ...counts } : row))
  return { ...balanced, counters: rows }
}

test('books that balance', () => {
  expect(differences(balanced)).toEqual([])
  expect(differences({ counters: [], unfinished: [], openIdentities: [], kept: 0 })).toEqual([])
})

test.each([
  ['a lost delivery', { ...balanced, unfinished: balanced.unfinished.slice(1) }, 2],
  ['a lost dead letter', { ...balanced, unfinished: balanced.unfinished.slice(0, 2) }, 3],
  ['a lost identity', { ...balanced, openIdentities: [] }, 1],
  ['a lost kept message', { ...balanced, kept: 0 }, 1],
  ['a delivery that nobody sent', changed('billing', { accepted: 10 }), 2],
  ['a fan-out that nobody accepted', changed('', { fannedOut: 9 }), 1],
  ['a transport’s copy counted for the queue', changed('billing', { custody: 0 }), 1],
  ['an end that was counted twice', changed('billing', { done: 5 }), 2],
  ['a finished identity that is gone', { ...balanced, sweep: balanced.sweep?.slice(0, 3) ?? [] }, 1],
  [
    'rows of nobody',
    { ...balanced, unfinished: [...balanced.unfinished, { consumer: 'x', state: 'ready', count: 2 }] },
    1,
  ],
] as const)('%s is found', (_, snapshot, faults) => {
  expect(differences(snapshot as LedgerSnapshot)).toHaveLength(faults)
})

test('without a sweep the finished identities are not judged', () => {
  const { sweep: _, ...quick } = balanced
  expect(checkBooks(quick).lines.some(line => line.rule.includes('finished identities'))).toBe(false)
})

test('as long as nothing was purged, each end is compared by itself', () => {
  const swapped = changed('billing', { done: 3, stale: 2, purged: 0, accepted: 9, discarded: 1 })
  const sweep = balanced.sweep?.map(row => (row.state === 'done' ? { ...row, count: 4 } : row)) ?? []
  const rules = differences({ ...swapped, sweep })
  expect(rules).toEqual([
    'receiver billing: done by the counters = done identities, 3 and 4',
    'receiver billing: stale by the counters = stale identities, 2 and 1',
  ])
})

test('the parts of what was accepted, zeros left out', () => {
  const parts = partsOf('billing', balanced).map(({ name, count }) => `${name} ${count}`)
  expect(parts).toEqual(['done 4', 'stale 1', 'discarded 1', 'ready 1', 'behind 1', 'dead 1'])
  expect(partsOf('nobody', balanced)).toEqual([])
})
