import { describe, test } from 'vitest'
import { type Setup, unknownCommit } from './unknown-commit.ts'
import { breaks, holds } from './verdict.ts'

describe('an unknown COMMIT, resolved by locking the identity', () => {
  const setups: [string, Setup][] = [
    ['transport', { route: 'transport', unknown: 2 }],
    ['store', { route: 'store', unknown: 2 }],
    ['transport, unknown again and again', { route: 'transport', unknown: 5 }],
    ['store, unknown again and again', { route: 'store', unknown: 5 }],
    // One identity row makes even a read or a guess harmless, if whatever follows has to lock that row.
    ['a read whose dead letter is the identity', { route: 'transport', unknown: 2, rules: { resolve: 'read' } }],
    [
      'a guess whose dead letter is the identity',
      { route: 'store', unknown: 2, rules: { resolve: 'guess rolled back' } },
    ],
  ]
  test.each(setups)('%s', (_name, setup) => holds(unknownCommit(setup)))
})

describe('an unknown COMMIT that is resolved otherwise is caught', () => {
  const beside = 'beside' as const
  test('by a plain read: done, and a dead letter', () => {
    breaks(unknownCommit({ route: 'store', rules: { resolve: 'read', deadLetter: beside } }), 'both', 5)
  })
  test('by a plain read: acked while the COMMIT is in flight', () => {
    breaks(unknownCommit({ route: 'transport', rules: { resolve: 'read', deadLetter: beside } }), 'early', 5)
  })
  test('by guessing that it was rolled back', () => {
    breaks(unknownCommit({ route: 'store', rules: { resolve: 'guess rolled back', deadLetter: beside } }), 'both', 5)
  })
  test('by guessing that it committed', () => {
    breaks(unknownCommit({ route: 'store', rules: { resolve: 'guess committed' } }), 'label', 4)
    breaks(unknownCommit({ route: 'transport', rules: { resolve: 'guess committed' } }), 'early', 4)
  })
  test('without a token: another attempt is taken for mine', () => {
    breaks(unknownCommit({ route: 'transport', rules: { token: false } }), 'label', 7)
  })
})
