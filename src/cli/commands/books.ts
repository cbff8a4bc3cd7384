import type { Command } from 'commander'
import type { LedgerSnapshot } from '../../contracts/ledger.ts'
import { type BookLine, type Books, checkBooks, type Part, partsOf } from '../../observe/books.ts'
import { withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { marked } from '../terminal.ts'
import { type PlaceOptions, withExamples, withPlace } from './place.ts'

export function addBooks(program: Command): void {
  const books = program.command('books').description('the three ledgers, and whether they balance; exits 2 when not')
  withExamples(
    withPlace(books).option('--sweep', 'count the finished identities too; reads them all'),
    'books',
    'books --sweep --store sqlite:data/app.db',
  ).action(show)
}

function show(options: PlaceOptions & { readonly sweep?: boolean }): Promise<void> {
  return withStore(options, 'look', async ({ store }) => {
    await store.checkSchema()
    const snapshot = await store.reads.ledger(options.sweep === true)
    const books = checkBooks(snapshot)
    answer(options.json, books.balanced ? 'ok' : 'critical', { ...books, ...snapshot }, () => describe(books, snapshot))
  })
}

function describe(books: Books, snapshot: LedgerSnapshot): string {
  const sender = snapshot.counters.find(row => row.consumer === '')
  const consumers = [...new Set(books.lines.map(line => line.consumer))].filter(consumer => consumer !== '').sort()
  const sent = sum('sent', sender?.sent ?? 0, [
    { name: 'sent again', count: sender?.resent ?? 0 },
    { name: 'kept', count: sender?.kept ?? 0 },
    { name: 'kept and discarded', count: sender?.discarded ?? 0 },
  ])
  const sections = [
    section(`sender: ${sent}`, linesOf(books, 'sender')),
    section(`store queue: fanned out ${sender?.fannedOut ?? 0}`, linesOf(books, 'store queue')),
    ...consumers.map(consumer => {
      const accepted = snapshot.counters.find(row => row.consumer === consumer)?.accepted ?? 0
      const parts = partsOf(consumer, snapshot)
      const all = parts.map(part => `${part.name} ${part.count}`).join(' + ')
      return section(
        `receiver ${consumer}: accepted ${accepted}${all === '' ? '' : ` = ${all}`}`,
        linesOf(books, 'receiver', consumer),
      )
    }),
  ]
  const verdict = books.balanced
    ? marked('ok', 'The books balance.')
    : marked('critical', 'The books do not balance: stop and look before anything is purged.')
  return `${sections.join('\n')}\n\n${verdict}`
}

function sum(name: string, total: number, parts: readonly Part[]): string {
  const shown = parts.filter(part => part.count !== 0).map(part => `${part.name} ${part.count}`)
  return [`${name} ${total}`, ...shown].join(', ')
}

function linesOf(books: Books, ledger: BookLine['ledger'], consumer = ''): BookLine[] {
  return books.lines.filter(line => line.ledger === ledger && line.consumer === consumer)
}

function section(title: string, lines: readonly BookLine[]): string {
  const width = (part: 'expected' | 'found') => Math.max(...lines.map(line => String(line[part]).length))
  const rule = Math.max(44, ...lines.map(line => line.rule.length))
  const rows = lines.map(line => {
    const [left, right] = [
      String(line.expected).padStart(width('expected')),
      String(line.found).padStart(width('found')),
    ]
    const text = `${line.rule.padEnd(rule)}  ${left} ${line.balanced ? '=' : '≠'} ${right}`
    return `  ${marked(line.balanced ? 'ok' : 'critical', text)}`
  })
  return [title, ...rows].join('\n')
}
