import { failed } from '../outcomes/decide.ts'
import type { RunningConsumer } from './running.ts'
import type { Fate, Work } from './work.ts'

/** The fate of a work whose attempt failed. `started`: its handler ran and was rolled back. */
export function failureOf(
  running: RunningConsumer,
  work: Work,
  error: unknown,
  durationMs: number,
  started: boolean,
): Fate {
  const label = started ? 'rolled back' : 'never started'
  return { kind: 'failed', deferral: failed(running.failures, work.delivery, error, label, durationMs), error }
}
