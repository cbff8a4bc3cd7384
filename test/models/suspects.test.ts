import { describe, test } from 'vitest'
import { type Setup, suspects } from './suspects.ts'
import { breaks, FULL, holds } from './verdict.ts'

describe('suspects that run alone in their process', () => {
  const setups: [string, Setup][] = [
    ['a killer in front', { rows: 'kii', maxDeaths: 3 }],
    ['two killers', { rows: 'kiik' }],
    ['a kill from outside', { rows: 'iki', kills: 1 }],
    ['two kills from outside', { rows: 'iiki', kills: 2, maxDeaths: 3 }],
    ['a beat that runs out, its zombie goes on', { rows: 'iki', kills: 1, beats: 1, maxDeaths: 3 }],
    ['one attempt for everybody', { rows: 'iki', kills: 1, maxAttempts: 1 }],
    ['one process', { rows: 'ikik', processes: 1, kills: 1 }],
  ]
  test.each(setups)('%s', (_name, setup) => holds(suspects(setup)))
  test.runIf(FULL)(
    'three slots, everything (full)',
    () => {
      holds(suspects({ rows: 'ikiki', slots: 3, kills: 2, beats: 1, maxDeaths: 4 }))
    },
    600_000,
  )
})

describe('broken isolation is caught', () => {
  test('alone in its transaction only: a sibling kills', () => {
    breaks(suspects({ rows: 'iki', rules: { alone: 'transaction' } }), 'charged', 7)
  })
  test('leased as alone, then waiting for its siblings', () => {
    breaks(suspects({ rows: 'iki', kills: 1, rules: { alone: 'lease' } }), 'charged', 6)
  })
  test('a death in company is charged', () => {
    breaks(suspects({ rows: 'iki', rules: { charge: 'all' } }), 'charged', 3)
  })
  test('attempts are not given back', () => {
    breaks(suspects({ rows: 'iki', maxAttempts: 1, rules: { refund: false } }), 'innocent', 4)
  })
  test('what nobody can have: as many kills from outside while alone as there are deaths', () => {
    breaks(suspects({ rows: 'i', kills: 3 }), 'innocent', 6)
  })
})
