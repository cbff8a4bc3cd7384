import type { ConsumerStatus } from '../contracts/ledger.ts'

/** A length of time as people say it: `350 ms`, `12 s`, `3 min`, `5 h`, `2 days`. */
export function inWords(milliseconds: number): string {
  const ms = Math.max(0, Math.round(milliseconds))
  if (ms < 1_000) return `${ms} ms`
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} days`
}

/** How many deliveries of a consumer wait to be run or are being run. */
export function lagOf(status: ConsumerStatus): number {
  const { ready, retry, suspect, version } = status.states
  return status.inProgress + ready + retry + suspect + version
}

/** One consumer in a few words, and how urgent it is: the word comes first, so that nobody has to know a colour. */
export function judge(status: ConsumerStatus): {
  readonly word: string
  readonly level: 'ok' | 'warning' | 'critical'
} {
  const dead = status.states.dead + status.states.passed
  const lag = lagOf(status)
  if (lag > 0 && status.processes === 0) return { word: 'stopped', level: 'critical' }
  if (dead > 0) return { word: 'dead letters', level: 'warning' }
  if (status.states.version > 0) return { word: 'waits for a deploy', level: 'warning' }
  if (lag > 0) return { word: 'working', level: 'ok' }
  return { word: status.processes === 0 ? 'idle, no process' : 'idle', level: 'ok' }
}
