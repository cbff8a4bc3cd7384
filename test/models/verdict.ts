/** What the tests of the models say about a machine: that it holds, or how it breaks. */
import { expect } from 'vitest'
import { explore, type Machine, tell } from './explore.ts'

/** Larger parameter sets, minutes instead of seconds: `npm run models`. */
export const FULL = process.env.ICHIDO_MODELS === 'full'

/** Every reachable state was seen and none is wrong. */
export function holds<S>(machine: Machine<S>): void {
  const report = explore(machine)
  expect(report.violation, tell(report)).toBeNull()
  expect(report.exhausted, tell(report)).toBe(true)
  if (process.env.ICHIDO_MODELS) console.log(`${expect.getState().currentTestName}: ${tell(report)}`)
}

/** The shortest way to break it is of this kind, and `moves` long. */
export function breaks<S>(machine: Machine<S>, kind: string, moves: number): void {
  const report = explore(machine)
  expect(report.violation?.kind, tell(report)).toBe(kind)
  expect(report.violation?.trace.length, tell(report)).toBe(moves)
  if (process.env.ICHIDO_MODELS) console.log(`${expect.getState().currentTestName}: ${tell(report)}`)
}
