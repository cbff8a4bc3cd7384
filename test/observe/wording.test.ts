import { expect, test } from 'vitest'
import type { ConsumerStatus, Counters } from '../../src/contracts/ledger.ts'
import type { DeliveryState } from '../../src/contracts/outcome.ts'
import { inWords, judge, lagOf } from '../../src/observe/wording.ts'

const NOW = 1_000_000

function status(states: Partial<Record<DeliveryState, number>>, more: Partial<ConsumerStatus> = {}): ConsumerStatus {
  const none = { ready: 0, delayed: 0, retry: 0, behind: 0, version: 0, suspect: 0, dead: 0, passed: 0 }
  const rest = { inProgress: 0, oldestAt: null, processes: 1, beatAt: NOW - 1_000, counters: {} as Counters }
  return { consumer: 'billing', topics: ['order'], states: { ...none, ...states }, ...rest, ...more }
}

test.each([
  ['nothing to do', status({}), 'idle', 'ok'],
  ['work and a process', status({ ready: 1 }), 'working', 'ok'],
  ['nobody there, nothing to do', status({}, { processes: 0, beatAt: null }), 'no process', 'ok'],
  ['nobody there, and work', status({ ready: 1 }, { processes: 0, beatAt: null }), 'stopped', 'critical'],
  ['nobody there, and a lease', status({}, { inProgress: 1, processes: 0, beatAt: null }), 'stopped', 'critical'],
  ['no beat, and work', status({ retry: 1 }, { beatAt: NOW - 60_000 }), 'silent for 60 s', 'critical'],
  ['no beat, nothing to do', status({}, { beatAt: NOW - 60_000 }), 'silent for 60 s', 'warning'],
  ['a dead letter', status({ dead: 1, ready: 5 }), 'dead letters', 'warning'],
  ['a dead letter that may be passed', status({ passed: 1 }), 'dead letters', 'warning'],
  ['newer messages', status({ version: 1 }), 'waits for a deploy', 'warning'],
  ['followers only', status({ behind: 3, delayed: 2 }), 'idle', 'ok'],
] as const)('%s', (_, given, word, level) => {
  expect(judge(given, NOW)).toEqual({ word, level })
})

test('a configured lease decides when a process is silent', () => {
  expect(judge(status({}, { beatAt: NOW - 60_000 }), NOW, 120_000).word).toBe('idle')
})

test('the lag is what can or could run, not what is delayed, behind or dead', () => {
  const all = { ready: 1, retry: 2, suspect: 4, version: 8, delayed: 100, behind: 100, dead: 100, passed: 100 }
  expect(lagOf(status(all, { inProgress: 16 }))).toBe(31)
})

test.each([
  [0, '0 ms'],
  [-5, '0 ms'],
  [999.4, '999 ms'],
  [1_000, '1 s'],
  [119_000, '119 s'],
  [119_600, '2 min'],
  [180_000, '3 min'],
  [7_200_000, '2 h'],
  [171_000_000, '2 days'],
  [7 * 86_400_000, '7 days'],
])('%d is %s', (ms, words) => {
  expect(inWords(ms)).toBe(words)
})
