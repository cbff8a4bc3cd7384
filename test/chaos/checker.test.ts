import { expect, test } from 'vitest'
import { type Evidence, judge } from './checker.ts'
import type { Intent } from './settings.ts'

const intent = (id: string, key: string | null, seq: number, kind: Intent['kind'] = 'ok'): [string, Intent] => [
  id,
  { id, key, seq, kind },
]
const good: Evidence = {
  intents: new Map([
    intent('a', 'k', 0),
    intent('b', 'k', 1),
    intent('x', 'd', 0, 'dead'),
    intent('y', 'd', 1),
    intent('z', null, 0),
  ]),
  confirmed: new Set(['a', 'b', 'x', 'y', 'z']),
  effects: [
    { id: 'a', key: 'k', seq: 0 },
    { id: 'z', key: null, seq: 0 },
    { id: 'b', key: 'k', seq: 1 },
  ],
  open: [
    { id: 'x', key: 'd', state: 'dead' },
    { id: 'y', key: 'd', state: 'behind' },
  ],
  business: new Set(['a', 'x']),
}
const faults = ['lost', 'ghosts', 'stranded', 'doubleEffects', 'orderViolations', 'innocentDead'] as const

test('a good run has no fault', () => {
  expect(judge(good)).toEqual({
    ...{ attempted: 5, confirmed: 5, done: 3, dead: 1, waiting: 1 },
    ...Object.fromEntries(faults.map(fault => [fault, 0])),
  })
})

const [a, z, b] = good.effects as [Evidence['effects'][0], Evidence['effects'][0], Evidence['effects'][0]]
test.each<[(typeof faults)[number], string, Partial<Evidence>]>([
  ['lost', 'a confirmed message is nowhere', { effects: [a, b] }],
  ['ghosts', 'an effect of nobody', { effects: [a, z, b, { id: 'g', key: null, seq: 0 }] }],
  ['ghosts', 'a row without its message', { business: new Set(['a', 'g']) }],
  [
    'stranded',
    'a follower of nobody',
    {
      open: [
        { id: 'x', key: 'd', state: 'dead' },
        { id: 'y', key: 'e', state: 'behind' },
      ],
    },
  ],
  ['doubleEffects', 'an effect twice', { effects: [a, z, b, z] }],
  ['doubleEffects', 'done and dead', { effects: [a, z, b, { id: 'x', key: 'd', seq: 0 }] }],
  ['orderViolations', 'two in the wrong order', { effects: [b, a, z] }],
  ['orderViolations', 'a gap', { effects: [z, b], open: [...good.open, { id: 'a', key: 'k', state: 'retry' }] }],
  ['orderViolations', 'one that passed a dead letter', { effects: [a, z, b, { id: 'y', key: 'd', seq: 1 }] }],
  ['innocentDead', 'an innocent dead letter', { open: [...good.open, { id: 'q', key: null, state: 'dead' }] }],
])('%s: %s', (fault, _, change) => {
  expect(judge({ ...good, ...change })[fault]).toBeGreaterThan(0)
})
