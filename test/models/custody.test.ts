import { describe, test } from 'vitest'
import { custody, type Setup } from './custody.ts'
import { breaks, FULL, holds } from './verdict.ts'

describe('one identity row and custody hold', () => {
  const setups: [string, Setup][] = [
    ['failures, ownership moves twice, a kill, a lost lease', { fails: 2, moves: 2, kills: 1, beats: 1 }],
    [
      'the same, redelivered copies are run directly',
      { fails: 2, moves: 2, kills: 1, beats: 1, rules: { suspects: false } },
    ],
    ['two workers of the store', { workers: 2, fails: 1, moves: 1, beats: 1, kills: 1 }],
    ['operators under block', { fails: 2, moves: 1, operations: 2 }],
    [
      'operators under pass, a delayed message',
      { onDead: 'pass', later: [1], fails: 1, moves: 1, kills: 1, operations: 1 },
    ],
    [
      'the same, the claim tries the lock of the key',
      { onDead: 'pass', later: [1], fails: 1, moves: 1, operations: 1, rules: { wake: 'claim' } },
    ],
    ['a message that kills its process', { killers: [1], fails: 1, moves: 1, kills: 1 }],
    ['without the lock of the key, if nothing wakes', { fails: 2, moves: 2, kills: 1, rules: { keyLock: false } }],
  ]
  test.each(setups)('%s', (_name, setup) => holds(custody(setup)))

  const larger: [string, Setup][] = [
    ['four messages', { messages: 4, workers: 2, fails: 2, moves: 2, kills: 1, beats: 1 }],
    ['three moves, two kills', { workers: 2, fails: 3, moves: 3, kills: 2, beats: 1, operations: 1 }],
    [
      'everything under pass',
      { workers: 2, onDead: 'pass', later: [1], fails: 2, moves: 2, kills: 1, beats: 1, operations: 1 },
    ],
  ]
  test.runIf(FULL).each(larger)('%s (full)', (_name, setup) => holds(custody(setup)), 600_000)
})

describe('broken custody is caught', () => {
  test('two memories: done and dead', () => {
    breaks(custody({ fails: 1, moves: 1, rules: { memories: 2, suspects: false } }), 'both', 9)
  })
  test('two memories: what one holds for a suspect, the other runs', () => {
    breaks(custody({ moves: 1, rules: { memories: 2 } }), 'together', 8)
  })
  test('ack before custody commits', () => {
    breaks(custody({ fails: 1, kills: 1, rules: { ack: 'before' } }), 'lost', 5)
  })
  test('no lock of the key: a redriven row runs beside an attempt', () => {
    breaks(custody({ fails: 1, operations: 1, onDead: 'pass', rules: { keyLock: false } }), 'together', 12)
  })
  test('a delayed message that becomes due without the lock', () => {
    breaks(custody({ later: [0], rules: { wake: 'free' } }), 'together', 9)
  })
  test('only done rows de-duplicate', () => {
    breaks(custody({ fails: 1, moves: 1, rules: { duplicate: 'done', suspects: false } }), 'together', 12)
  })
  test('a hand-over that leaves a gap', () => {
    breaks(custody({ fails: 1, moves: 1, rules: { handover: 'cancel' } }), 'order', 7)
  })
  test('a follower that is inserted as behind, without a lock on the head', () => {
    breaks(custody({ messages: 2, fails: 1, rules: { follower: 'behind' } }), 'stranded', 15)
  })
  test('redelivered copies are run directly: a killer is never found', () => {
    breaks(custody({ killers: [0], rules: { suspects: false } }), 'stranded', 0)
  })
})
