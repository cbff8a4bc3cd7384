import { inspect } from 'node:util'
import type { Log, LogLevel } from '../contracts/log.ts'
import { systemClock } from '../runtime/clock.ts'
import type { Ichido } from '../runtime/ichido.ts'
import { createLog } from '../runtime/log.ts'
import { dim, type Level, marked, time, visible, visibleJson } from './terminal.ts'

const levels: Readonly<Record<LogLevel, Level>> = { debug: 'ok', info: 'ok', warn: 'warning', error: 'critical' }

/** Lines for people on a terminal, lines of JSON everywhere else. */
export function chooseLog(json: boolean | undefined): Log {
  const now = () => systemClock.now()
  if (json || !process.stdout.isTTY) return createLog(line => process.stdout.write(visibleJson(line)), now)
  const at =
    (level: LogLevel) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
      if (level === 'debug') return
      const parts = Object.entries(fields).map(([name, value]) => `${dim(`${name}=`)}${shown(value)}`)
      process.stdout.write(`${dim(time(now()))} ${[marked(levels[level], visible(message)), ...parts].join('  ')}\n`)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.map(shown).join(',')
  return visible(
    typeof value === 'string' ? value : inspect(value, { breakLength: Number.POSITIVE_INFINITY, depth: 2 }),
  )
}

/** Tells what a running ichido does that an operator should know; single successes are only counted in the store. */
export function logEvents(ichido: Ichido, log: Log): void {
  ichido.on('settled', ({ error, outcome, durationMs, ...event }) => {
    if (outcome !== 'retry') return
    const tookMs = Math.round(durationMs * 10) / 10
    log.warn('a try failed', { ...event, durationMs: tookMs, code: error?.code, error: error?.message })
  })
  ichido.on('dead', ({ error, ...event }) => {
    log.error('dead letter', { ...event, class: error.class, code: error.code, error: error.message })
  })
  ichido.on('fenced', event => log.warn('rolled back: another process owns the deliveries now', { ...event }))
  ichido.on('commitResolved', event => log.warn('a commit without an answer was resolved', { ...event }))
  ichido.on('degraded', event => log.warn('degraded', { ...event }))
  ichido.on('recovered', event => log.info('recovered', { ...event }))
  ichido.on('processLost', event => log.warn('a process was lost', { ...event }))
  ichido.on('incarnationLost', event => log.warn('this process was taken for dead, and goes on', { ...event }))
  ichido.on('loopBlocked', event => log.warn('a handler blocked the event loop', { ...event }))
  ichido.on('hookFailed', event => log.warn('a hook failed', { ...event }))
}
