import type { Command } from 'commander'
import type { ConsumerStatus, StoreStatus } from '../../contracts/ledger.ts'
import { ended } from '../../observe/books.ts'
import { inWords, type Judgement, judge, lagOf } from '../../observe/wording.ts'
import { worst } from '../exit.ts'
import { withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { count, marked, screenWidth, table, widthOf } from '../terminal.ts'
import { type PlaceOptions, withExamples, withPlace } from './place.ts'

export function addStatus(program: Command): void {
  const status = program.command('status').description('what waits, what runs, what is dead, for each consumer')
  withExamples(
    withPlace(status),
    'status',
    'status --store sqlite:data/app.db',
    'status --store postgres://ops@db/app --json',
  ).action(show)
}

interface Judged extends Judgement {
  readonly status: ConsumerStatus
  readonly lag: number
}

function show(options: PlaceOptions): Promise<void> {
  return withStore(options, 'look', async ({ store, name, config }) => {
    await store.checkSchema()
    const taken = await store.reads.status()
    const judged = taken.consumers.map(status => {
      return { status, lag: lagOf(status), ...judge(status, taken.now, config?.options.leaseMs) }
    })
    const level = worst(judged.map(entry => entry.level))
    const consumers = judged.map(({ status, lag, word, level: own }) => ({ level: own, word, lag, ...status }))
    answer(options.json, level, { level, ...taken, consumers }, () => {
      const kept = `${count(taken.kept, 'message')} kept: nobody consumes the topic yet.`
      if (judged.length === 0) return `${name} has no consumers yet. ${kept}`
      return [describe(judged, taken), ...(taken.kept > 0 ? [kept] : [])].join('\n')
    })
  })
}

/** What is zero for every consumer has no column; a screen that is too narrow for the columns gets a line for each consumer. */
function describe(judged: readonly Judged[], { now }: StoreStatus): string {
  const columns = columnsFor(judged, now)
  const head = columns.map(column => column.name)
  const lines = table(
    head,
    judged.map(entry => columns.map(column => column.cell(entry))),
    Number.POSITIVE_INFINITY,
  )
  if (Math.max(...lines.split('\n').map(widthOf)) <= screenWidth()) return lines
  const facts = columns.filter(column => column.name !== 'consumer' && column.name !== 'state')
  return judged
    .map(entry => {
      const parts = facts.map(column => `${column.name} ${column.cell(entry)}`)
      return `${entry.status.consumer}  ${marked(entry.level, entry.word)}\n  ${parts.join(', ')}`
    })
    .join('\n')
}

interface Column {
  readonly name: string
  readonly cell: (entry: Judged) => string | number
}

function columnsFor(judged: readonly Judged[], now: number): Column[] {
  const age = ({ status }: Judged) => (status.oldestAt === null ? '–' : inWords(now - status.oldestAt))
  const sometimes: Column[] = [
    { name: 'running', cell: ({ status }) => status.inProgress },
    { name: 'retry', cell: ({ status }) => status.states.retry },
    { name: 'suspect', cell: ({ status }) => status.states.suspect },
    { name: 'version', cell: ({ status }) => status.states.version },
    { name: 'delayed', cell: ({ status }) => status.states.delayed },
    { name: 'behind', cell: ({ status }) => status.states.behind },
  ]
  return [
    { name: 'consumer', cell: ({ status }) => status.consumer },
    { name: 'state', cell: entry => marked(entry.level, entry.word) },
    { name: 'lag', cell: entry => entry.lag },
    { name: 'oldest', cell: age },
    ...sometimes.filter(column => judged.some(entry => column.cell(entry) !== 0)),
    { name: 'dead', cell: ({ status }) => status.states.dead + status.states.passed },
    { name: 'ended', cell: ({ status }) => ended(status.counters) },
    { name: 'processes', cell: ({ status }) => status.processes },
  ]
}
