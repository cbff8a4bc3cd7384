import type { Level } from './terminal.ts'

/** What cron and scripts see: 0 ok, 1 warning, 2 critical or error. */
export const exitCodes: Readonly<Record<Level, number>> = { ok: 0, warning: 1, critical: 2 }

export function worst(levels: readonly Level[]): Level {
  if (levels.includes('critical')) return 'critical'
  return levels.includes('warning') ? 'warning' : 'ok'
}

/** Waits until all output is out, and ends the process: a pool of the user's own must not keep a finished command alive. */
export async function endProcess(): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>(resolve => stream.write('', () => resolve()))
  }
  process.exit()
}

/** `ichido dead list | head` closes the pipe early: that is no error. */
export function allowClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', error => {
      if ((error as { code?: string }).code === 'EPIPE') process.exit()
      throw error
    })
  }
}
