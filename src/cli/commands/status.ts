import type { Command } from 'commander'
import { checkBooks, ended } from '../../observe/books.ts'
import { inWords, judge, lagOf } from '../../observe/wording.ts'
import { worst } from '../exit.ts'
import { openStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { marked, table } from '../terminal.ts'
import { type PlaceOptions, withPlace } from './place.ts'

export function addStatus(program: Command): void {
  withPlace(program.command('status').description('what waits, what runs, what is dead, for each consumer')).action(
    status,
  )
  withPlace(program.command('books').description('the three ledgers, and whether they balance'))
    .option('--sweep', 'count the finished identities too; reads them all')
    .action(books)
}

async function status(options: PlaceOptions): Promise<void> {
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const value = await opened.store.reads.status()
    const judged = value.consumers.map(consumer => ({ consumer, ...judge(consumer) }))
    const level = worst(judged.map(entry => entry.level))
    answer(options.json, level, value, () => {
      if (judged.length === 0) return `${opened.name} has no consumers yet; ${value.kept} message(s) are kept.`
      const rows = judged.map(({ consumer, word, level: own }) => {
        const { states, inProgress, oldestAt, processes, counters } = consumer
        const oldest = oldestAt === null ? '–' : inWords(value.now - oldestAt)
        const waits = [states.delayed, states.behind, states.dead + states.passed] as const
        return [
          consumer.consumer,
          marked(own, word),
          lagOf(consumer),
          oldest,
          inProgress,
          ...waits,
          ended(counters),
          processes,
        ]
      })
      const head = ['consumer', 'state', 'lag', 'oldest', 'running', 'delayed', 'behind', 'dead', 'ended', 'processes']
      return `${table(head, rows)}${value.kept > 0 ? `\n${value.kept} message(s) are kept: nobody consumes their topic yet.` : ''}`
    })
  } finally {
    await opened.close()
  }
}

async function books(options: PlaceOptions & { sweep?: boolean }): Promise<void> {
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const snapshot = await opened.store.reads.ledger()
    const checked = checkBooks(snapshot, options.sweep ? await opened.store.reads.sweep() : null)
    answer(options.json, checked.balanced ? 'ok' : 'critical', { ...checked, ...snapshot }, () => {
      const rows = checked.lines.map(line => {
        const verdict = line.balanced ? marked('ok', 'equal') : marked('critical', 'DIFFERENT')
        return [line.ledger, line.consumer || '–', line.rule, line.expected, line.found, verdict]
      })
      const sums = snapshot.counters.map(row => [
        row.consumer || '(sender)',
        row.sent,
        row.accepted,
        row.done,
        row.stale,
        row.dead,
        row.discarded,
        row.retried,
      ])
      const totals = table(['consumer', 'sent', 'accepted', 'done', 'stale', 'dead', 'discarded', 'retried'], sums)
      const verdict = checked.balanced
        ? marked('ok', 'The books balance.')
        : marked('critical', 'The books do not balance: stop and look before anything is purged.')
      return `${totals}\n\n${table(['ledger', 'consumer', 'rule', 'expected', 'found', ''], rows)}\n\n${verdict}`
    })
  } finally {
    await opened.close()
  }
}
