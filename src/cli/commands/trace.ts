import type { Command } from 'commander'
import type { Trace, TraceAttempt } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import { inWords } from '../../observe/wording.ts'
import { openStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { shorten, table, time, visible } from '../terminal.ts'
import { type PlaceOptions, withPlace } from './place.ts'

export function addTrace(program: Command): void {
  withPlace(program.command('trace').description('every attempt of a message, with planned and real times'))
    .argument('<id>', 'the id of the message')
    .action(trace)
}

async function trace(id: string, options: PlaceOptions): Promise<void> {
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const traces = await opened.store.reads.trace(id)
    if (traces.length === 0) {
      throw new IchidoError('NOT_FOUND', `${opened.name} has no message ${id}.`, {
        hint: 'It was never accepted, or its retention is over.',
      })
    }
    answer(options.json, 'ok', traces, () => traces.map(describe).join('\n\n'))
  } finally {
    await opened.close()
  }
}

function describe(one: Trace): string {
  const state = one.state === 'open' ? `open, ${one.waiting ?? 'unknown'}` : one.state
  const end =
    one.finishedAt === null ? '' : `, ended ${time(one.finishedAt)} after ${inWords(one.finishedAt - one.acceptedAt)}`
  const head = `${visible(one.id)} at ${one.consumer} (topic ${one.topic}): ${state}\n  accepted ${time(one.acceptedAt)}${end}; attempts ${one.attempts}, deaths ${one.deaths}, cycle ${one.cycle}`
  if (one.history.length === 0) return `${head}${one.state === 'done' ? '\n  done at the first try' : ''}`
  const rows = one.history.map(entry => {
    const cause = entry.code === null ? '' : `${entry.code}: ${visible(entry.message ?? '')}`
    return [
      entry.cycle,
      entry.attempt,
      time(entry.plannedAt),
      time(entry.startedAt),
      drift(entry),
      entry.outcome,
      shorten(cause, 60),
    ]
  })
  return `${head}\n${table(['cycle', 'attempt', 'planned', 'started', 'late by', 'outcome', 'cause'], rows)}`
}

function drift(entry: TraceAttempt): string {
  return entry.plannedAt === null || entry.startedAt === null ? '–' : inWords(entry.startedAt - entry.plannedAt)
}
