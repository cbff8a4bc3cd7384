import { describe, test } from 'vitest'
import { purge, type Setup } from './purge.ts'
import { breaks, FULL, holds } from './verdict.ts'

describe('raise, wait, delete holds', () => {
  const setups: [string, Setup][] = [
    ['a done message, two processes, copies', { copies: 2 }],
    ['a fresh message, a failure, custody', { fresh: true, copies: 2, fails: 1 }],
    ['two purges, three processes', { fresh: true, processes: 3, purges: 2, fails: 2 }],
    [
      'W is read when the transaction begins',
      { fresh: true, copies: 2, fails: 2, purges: 2, rules: { reads: 'begin' } },
    ],
  ]
  test.each(setups)('%s', (_name, setup) => holds(purge(setup)))
  test.runIf(FULL)(
    'three processes, many copies (full)',
    () => {
      holds(purge({ fresh: true, processes: 3, copies: 3, fails: 3, purges: 3 }))
    },
    600_000,
  )
})

describe('a broken purge is caught', () => {
  test('delete first', () => {
    breaks(purge({ rules: { order: 'delete, raise' } }), 'twice', 5)
  })
  test('raise, then delete without the wait', () => {
    breaks(purge({ rules: { order: 'raise, delete' } }), 'twice', 6)
  })
  test('raise and delete in one transaction', () => {
    breaks(purge({ rules: { order: 'one transaction' } }), 'twice', 5)
  })
  test('the gate at the first attempt only', () => {
    breaks(purge({ fresh: true, rules: { gate: 'attempt' } }), 'twice', 15)
  })
  test('W is remembered from the start of the process', () => {
    breaks(purge({ rules: { reads: 'start' } }), 'twice', 6)
  })
})
