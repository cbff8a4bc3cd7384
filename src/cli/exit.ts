import type { Level } from './terminal.ts'

/** What cron and scripts see: 0 ok, 1 warning, 2 critical or error. */
export const exitCodes: Readonly<Record<Level, number>> = { ok: 0, warning: 1, critical: 2 }

export function worst(levels: readonly Level[]): Level {
  if (levels.includes('critical')) return 'critical'
  return levels.includes('warning') ? 'warning' : 'ok'
}
