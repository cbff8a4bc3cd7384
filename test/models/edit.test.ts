import { describe, test } from 'vitest'
import { edit, type Setup } from './edit.ts'
import { breaks, FULL, holds } from './verdict.ts'

describe('edits, redrives and re-sent messages hold', () => {
  const setups: [string, Setup][] = [
    ['three operators at once', { operators: ['redrive', 'edit', 'discard'], fails: 2 }],
    [
      'two operators, a re-sent message, a lost lease',
      { operators: ['redrive', 'edit'], resend: true, fails: 2, beats: 1 },
    ],
    ['an heir is edited again', { operators: ['edit', 'edit'], resend: true, fails: 2 }],
    ['discarded, then replaced', { operators: ['discard', 'edit'], resend: true, fails: 2 }],
    [
      'X comes after the message that replaces it',
      { operators: ['redrive', 'edit'], resend: true, late: true, fails: 2 },
    ],
    [
      'a lease is taken over instead of waited for',
      { operators: ['edit'], resend: true, fails: 2, beats: 1, rules: { leased: 'fence' } },
    ],
    [
      'the state alone is compared',
      { operators: ['redrive', 'edit', 'discard'], fails: 2, rules: { compare: 'state' } },
    ],
  ]
  test.each(setups)('%s', (_name, setup) => holds(edit(setup)))
  test.runIf(FULL)(
    'everything (full)',
    () => {
      holds(edit({ operators: ['redrive', 'edit', 'edit'], resend: true, fails: 3, beats: 1 }))
    },
    600_000,
  )
})

describe('broken edits are caught', () => {
  test('an edit in two transactions, close first: the follower passes', () => {
    breaks(edit({ operators: ['edit'], rules: { edit: 'close, insert' } }), 'order', 9)
  })
  test('an edit in two transactions, insert first: both run', () => {
    breaks(edit({ operators: ['edit', 'redrive'], rules: { edit: 'insert, close' } }), 'twice', 13)
  })
  test('an operator acts on what has changed', () => {
    breaks(edit({ operators: ['redrive', 'edit'], rules: { compare: 'nothing' } }), 'order', 13)
  })
  test('an heir without held strands the followers', () => {
    breaks(edit({ operators: ['edit'], rules: { inherits: false } }), 'stranded', 9)
  })
  test('a re-sent message ignores the lease', () => {
    breaks(edit({ resend: true, rules: { leased: 'ignore' } }), 'twice', 7)
  })
  test('a re-sent message believes what it read before it locked', () => {
    breaks(edit({ resend: true, rules: { leased: 'believe' } }), 'order', 8)
  })
  test('a re-sent message does not follow the chain of heirs', () => {
    breaks(edit({ operators: ['edit'], resend: true, rules: { follows: false } }), 'twice', 15)
  })
  test('a re-sent message does not claim the identity that it replaces', () => {
    breaks(edit({ resend: true, late: true, rules: { claimsBoth: false } }), 'twice', 8)
  })
})
