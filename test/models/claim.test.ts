import { describe, test } from 'vitest'
import { claim, type Setup } from './claim.ts'
import { breaks, FULL, holds } from './verdict.ts'

/** The other right way: simpler rules, if the claims of a consumer exclude each other. */
const SERIAL = { serial: 'before', statements: 1, hole: 'leased' } as const

describe('the claim with the hole rule holds', () => {
  const setups: [string, Setup][] = [
    ['one key, a failure and a fault', { keys: [0, 0, 0], fails: 1, faults: 1 }],
    [
      'one key, a row that becomes visible late, small window',
      { keys: [0, 0, 0], start: ['hidden'], limit: 1, fails: 1, faults: 1 },
    ],
    [
      'one key, followers released one by one, operators',
      { keys: [0, 0, 0, 0], start: ['dead'], chunk: 1, operations: 2 },
    ],
    [
      'one key, followers released two at a time',
      { keys: [0, 0, 0, 0], start: ['retry', 'behind', 'behind', 'hidden'], chunk: 2, fails: 1 },
    ],
    ['one key, three workers', { keys: [0, 0, 0], start: ['hidden'], workers: 3, fails: 1 }],
    [
      'one key, dead rows are passed',
      { keys: [0, 0, 0], start: ['ready', 'delayed'], onDead: 'pass', fails: 1, operations: 1 },
    ],
    ['two keys, a failure', { keys: [0, 1, 0, 1], limit: 3, fails: 1 }],
    ['two keys, a fault', { keys: [0, 1, 0], faults: 1, fails: 1 }],
    ['rows without a key', { keys: [-1, 0, -1], fails: 1, faults: 1 }],
    [
      'two late rows, two rows asked',
      { keys: [0, 0, 0], start: ['hidden', 'hidden'], limit: 1, fails: 1, rules: { look: 2 } },
    ],
    [
      'marks under the first row instead of the hole',
      { keys: [0, 0, 0, 0], start: ['dead'], chunk: 1, operations: 2, rules: { mark: 'first' } },
    ],
    [
      'claims one after another: no lock on the hole, and the snapshot of the one statement will do',
      { keys: [0, 0, 0], start: ['hidden'], limit: 1, fails: 1, faults: 1, rules: SERIAL },
    ],
    [
      'the same with a wide window, two late rows, followers',
      { keys: [0, 0, 0, 0], start: ['hidden', 'hidden'], fails: 1, chunk: 1, rules: { ...SERIAL, look: 1 } },
    ],
  ]
  test.each(setups)('%s', (_name, setup) => holds(claim(setup)))

  const larger: [string, Setup][] = [
    ['four rows of one key, a failure and a fault', { keys: [0, 0, 0, 0], chunk: 1, fails: 1, faults: 1 }],
    ['four rows of one key, two failures, operators', { keys: [0, 0, 0, 0], chunk: 1, fails: 2, operations: 1 }],
    ['one key, two failures and two faults', { keys: [0, 0, 0], start: ['hidden'], fails: 2, faults: 2 }],
    ['two keys, a failure and a fault', { keys: [0, 1, 0, 1], fails: 1, faults: 1 }],
    [
      'three workers, late rows, a failure and a fault',
      { keys: [0, 0, 0], start: ['hidden'], workers: 3, limit: 2, fails: 1, faults: 1 },
    ],
    ['two rows without a key and two with', { keys: [-1, -1, 0, 0], fails: 1, faults: 1 }],
  ]
  test.runIf(FULL).each(larger)('%s (full)', (_name, setup) => holds(claim(setup)), 600_000)
})

describe('a broken claim is caught', () => {
  test('the head is mine is not enough: SKIP LOCKED leaves gaps', () => {
    breaks(claim({ keys: [0, 0, 0], rules: { hole: 'head' } }), 'order', 12)
  })
  test('what stands before a leased hole runs beside it', () => {
    breaks(claim({ keys: [0, 0], start: ['hidden'], rules: { hole: 'before' } }), 'together', 11)
  })
  test('so it does before a hole that another claim holds locked', () => {
    breaks(claim({ keys: [0, 0], start: ['hidden'], rules: { hole: 'leased' } }), 'together', 12)
  })
  test('one statement: its snapshot does not see a late row that was leased meanwhile', () => {
    breaks(claim({ keys: [0, 0], start: ['hidden'], limit: 1, rules: { statements: 1 } }), 'together', 9)
  })
  test('one statement, wide window: the same after a suspect', () => {
    breaks(claim({ keys: [0, 0], start: ['hidden'], faults: 1, rules: { statements: 1 } }), 'together', 12)
  })
  test('claims that exclude each other too late: the snapshot is older than the lock', () => {
    const rules = { ...SERIAL, serial: 'inside' } as const
    breaks(claim({ keys: [0, 0], start: ['hidden'], limit: 1, rules }), 'together', 9)
  })
  test('two late rows hide a leased one when only the hole is asked', () => {
    breaks(claim({ keys: [0, 0, 0], start: ['hidden', 'hidden'] }), 'together', 12)
  })
  test('marks without a lock strand followers', () => {
    breaks(claim({ keys: [0, 0], start: ['dead'], operations: 1, rules: { mark: 'unlocked' } }), 'stranded', 6)
  })
  test('marks behind a follower strand', () => {
    const rules = { mark: 'middle', hole: 'leased' } as const
    breaks(claim({ keys: [0, 0, 0], start: ['retry', 'behind'], limit: 1, chunk: 1, rules }), 'stranded', 22)
  })
  test('a released follower without held strands the next', () => {
    const setup: Setup = { keys: [0, 0, 0], start: ['dead', 'behind', 'behind'], chunk: 1, operations: 1 }
    breaks(claim({ ...setup, rules: { heldOnRelease: false } }), 'stranded', 8)
  })
  test('no fence: a zombie takes effect beside the new owner', () => {
    breaks(claim({ keys: [0], faults: 1, rules: { fence: false } }), 'twice', 16)
  })
  test('a fenced batch is run again: it passes the row that it lost', () => {
    breaks(claim({ keys: [0, 0], faults: 1, rules: { rerun: true } }), 'order', 11)
  })
})
