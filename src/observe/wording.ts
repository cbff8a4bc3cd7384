import type { ConsumerStatus } from '../contracts/ledger.ts'
import { defaults } from '../contracts/limits.ts'
import type { DeliveryState } from '../contracts/outcome.ts'

/** A length of time as people say it: `350 ms`, `12 s`, `3 min`, `5 h`, `2 days`. */
export function inWords(milliseconds: number): string {
  const ms = Math.max(0, Math.round(milliseconds))
  if (ms < 1_000) return `${ms} ms`
  if (ms < 119_500) return `${Math.round(ms / 1_000)} s`
  if (ms < 7_170_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 171_000_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} days`
}

/** Why an unfinished delivery does not run now. */
export const reasons: Readonly<Record<DeliveryState | 'in progress', string>> = {
  'in progress': 'in progress',
  ready: 'due',
  delayed: 'not due yet',
  retry: 'waits for its next try',
  behind: 'waits for an earlier message of its key',
  version: 'newer than the running code, waits for the deploy',
  suspect: 'suspect, waits to run alone because its last owner died',
  dead: 'dead letter',
  passed: 'dead letter, its followers go on',
}

/** How many deliveries of a consumer wait to be run or are being run. */
export function lagOf(status: ConsumerStatus): number {
  const { ready, retry, suspect, version } = status.states
  return status.inProgress + ready + retry + suspect + version
}

export interface Judgement {
  readonly word: string
  readonly level: 'ok' | 'warning' | 'critical'
}

/** One consumer in a few words, and how urgent it is: the word comes first, so that nobody has to know a colour. */
export function judge(status: ConsumerStatus, now: number, leaseMs: number = defaults.leaseMs): Judgement {
  const dead = status.states.dead + status.states.passed
  const lag = lagOf(status)
  const stopped = status.processes === 0
  // Who was killed last has nobody left to declare it lost: only its beat tells.
  const silentMs = stopped || status.beatAt === null ? 0 : now - status.beatAt
  const silent = silentMs > leaseMs
  if (lag > 0 && stopped) return { word: 'stopped', level: 'critical' }
  if (silent) return { word: `silent for ${inWords(silentMs)}`, level: lag > 0 ? 'critical' : 'warning' }
  if (dead > 0) return { word: 'dead letters', level: 'warning' }
  if (status.states.version > 0) return { word: 'waits for a deploy', level: 'warning' }
  if (lag > 0) return { word: 'working', level: 'ok' }
  return { word: stopped ? 'no process' : 'idle', level: 'ok' }
}
