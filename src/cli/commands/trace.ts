import type { Command } from 'commander'
import type { Trace, TraceAttempt } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { DeliveryState } from '../../contracts/outcome.ts'
import { inWords, reasons } from '../../observe/wording.ts'
import { withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { count, screenWidth, table, time, visible } from '../terminal.ts'
import { type PlaceOptions, withExamples, withPlace } from './place.ts'

export function addTrace(program: Command): void {
  const trace = program.command('trace').description('every attempt of a message, with planned and real times')
  withExamples(
    withPlace(trace).argument('<id>', 'the id of the message'),
    'trace order-17',
    'trace order-17 --store sqlite:data/app.db --json',
  ).action(show)
}

function show(id: string, options: PlaceOptions): Promise<void> {
  return withStore(options, 'look', async ({ store, name }) => {
    await store.checkSchema()
    const traces = await store.reads.trace(id)
    if (traces.length === 0) {
      const hint = 'Look at the spelling; it was never accepted here, or its retention is over.'
      throw new IchidoError('NOT_FOUND', `${name} has no message ${id}.`, { hint })
    }
    const now = await store.now()
    const value = traces.map(({ history, ...rest }) => {
      return { ...rest, history: history.map(entry => ({ ...entry, lateMs: lateMs(entry) })) }
    })
    answer(options.json, 'ok', value, () => traces.map(one => describe(one, now)).join('\n\n'))
  })
}

/** How much later than planned an attempt began: nobody has to believe a setting. */
function lateMs({ plannedAt, startedAt }: TraceAttempt): number | null {
  return plannedAt === null || startedAt === null ? null : startedAt - plannedAt
}

function describe(one: Trace, now: number): string {
  const { id, consumer, topic, acceptedAt, finishedAt, attempts, deaths, cycle } = one
  const head =
    consumer === ''
      ? `${visible(id)}, topic ${visible(topic)}`
      : `${visible(id)} at ${visible(consumer)}, topic ${visible(topic)}`
  const began = `${one.state === 'kept' ? 'sent' : 'accepted'} ${time(acceptedAt)} (${inWords(now - acceptedAt)} ago)`
  const end = finishedAt === null ? '' : `, ended ${time(finishedAt)}, ${inWords(finishedAt - acceptedAt)} later`
  const counts = [
    count(attempts, 'attempt'),
    ...(deaths > 0 ? [count(deaths, 'death')] : []),
    ...(cycle > 0 ? [count(cycle, 'redrive')] : []),
  ]
  const lines = [`${head}: ${stateOf(one, now)}`, `  ${began}${end}${attempts > 0 ? `; ${counts.join(', ')}` : ''}`]
  if (one.waiting === 'dead' || one.waiting === 'passed') lines.push(`  next: ichido dead show ${visible(id)}`)
  if (one.history.length > 0) lines.push(indented(historyOf(one)))
  return lines.join('\n')
}

function stateOf({ state, waiting, dueAt }: Trace, now: number): string {
  if (state === 'kept') return 'kept, nobody consumes its topic yet'
  if (state !== 'open') return state
  const reason = reasons[waiting as DeliveryState | 'in progress'] ?? String(waiting)
  const waits = waiting === 'delayed' || waiting === 'retry'
  if (!waits || dueAt === null) return reason
  return `${reason}, ${dueAt > now ? `due in ${inWords(dueAt - now)}` : 'due now'} (${time(dueAt)})`
}

function historyOf({ history }: Trace): string {
  const redriven = history.some(entry => entry.cycle > 0)
  const rows = history.map(entry => {
    const { cycle, attempt, plannedAt, startedAt, endedAt, outcome, code, message } = entry
    const late = lateMs(entry)
    return [
      ...(redriven ? [cycle] : []),
      attempt,
      time(plannedAt),
      time(startedAt),
      late === null ? '–' : `${late < 0 ? '−' : ''}${inWords(Math.abs(late))}`,
      startedAt === null ? '–' : inWords(endedAt - startedAt),
      outcome,
      code === null ? '' : `${visible(code)}: ${visible(message ?? '')}`,
    ]
  })
  const head = ['attempt', 'planned', 'started', 'late', 'took', 'outcome', 'cause']
  return table(redriven ? ['cycle', ...head] : head, rows, screenWidth() - 2)
}

function indented(text: string): string {
  return text.replace(/^/gm, '  ')
}
