import { expect, test } from 'vitest'
import { explore, type Machine, tell } from './explore.ts'

/** A counter from 0 that may go up by one or two, and down by a fault. */
function counter(more: Partial<Machine<number>>): Machine<number> {
  return {
    initial: 0,
    next: (n, step, fault) => {
      if (n < 9) step('one up', n + 1)
      if (n < 8) step('two up', n + 2)
      if (n > 0) fault('one down', n - 1)
    },
    key: n => String(n),
    check: () => null,
    ...more,
  }
}

test('sees every state once', () => {
  expect(explore(counter({}))).toEqual({ states: 10, moves: 26, exhausted: true, violation: null })
})

test('finds the shortest way to a violation', () => {
  const { violation } = explore(counter({ check: n => (n === 5 ? 'five: it is 5' : null) }))
  expect(violation).toEqual({ kind: 'five', text: 'five: it is 5', trace: ['one up', 'two up', 'two up'] })
})

test('an initial state can be wrong', () => {
  expect(explore(counter({ check: () => 'all: wrong' })).violation?.trace).toEqual([])
})

test('finds a state from which nothing settles, and prefers a dead end', () => {
  const { violation } = explore(counter({ settled: n => n === 8, show: n => `at ${n}` }))
  expect(violation?.text).toBe('stranded: nothing ends at 9')
})

test('finds a circle that never settles', () => {
  const circle: Machine<string> = {
    initial: 'a',
    next: (s, step) => step('on', s === 'a' ? 'b' : s === 'b' ? 'c' : 'b'),
    key: s => s,
    check: () => null,
    settled: () => false,
  }
  expect(explore(circle).violation?.kind).toBe('stranded')
})

test('a fault does not count as progress', () => {
  expect(explore(counter({ settled: n => n === 0 })).violation?.kind).toBe('stranded')
})

test('says when it did not see everything', () => {
  const report = explore(counter({ maxStates: 4, settled: () => false }))
  expect(report).toMatchObject({ exhausted: false, violation: null })
  expect(tell(report)).toContain('NOT exhausted')
})
