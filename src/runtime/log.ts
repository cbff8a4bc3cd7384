import type { Log, LogLevel } from '../contracts/log.ts'

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

/** Lines of JSON to a writer, from a level on. What cannot be written as JSON is left out rather than thrown. */
export function createLog(write: (line: string) => void, now: () => number, from: LogLevel = 'info'): Log {
  const at = (level: LogLevel) => (message: string, fields?: Readonly<Record<string, unknown>>) => {
    if (ranks[level] < ranks[from]) return
    const time = new Date(now()).toISOString()
    let line: string
    try {
      line = JSON.stringify({ time, level, message, ...fields })
    } catch {
      line = JSON.stringify({ time, level, message, fields: 'cannot be written as JSON' })
    }
    write(`${line}\n`)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
