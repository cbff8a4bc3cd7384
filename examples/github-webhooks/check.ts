import { readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { checkBooks } from '../../src/observe/books.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import type { Delivery } from './deliveries.ts'
import type { Answers } from './github.ts'
import type { applyDirectly, MirrorRow } from './reference.ts'

interface Run {
  readonly files: { readonly database: string; readonly journal: string }
  readonly deliveries: readonly Delivery[]
  readonly expected: ReturnType<typeof applyDirectly>
  readonly answers: Answers
}

export interface Result {
  readonly faults: readonly string[]
  readonly books: ReadonlyArray<readonly [string, string | number]>
}

/** Compares what the consumers did with what had to happen, by the user's own tables. */
export async function check({ files, deliveries, expected, answers }: Run): Promise<Result> {
  const database = new DatabaseSync(files.database, { readOnly: true })
  const faults = [...answers.unexpected.slice(0, 5)]
  const ids = new Set(deliveries.map(delivery => delivery.id))
  const logged = database.prepare('select delivery from repository_log').all() as { delivery: string }[]
  const effects = database.prepare('select delivery from mirror_effect').all() as { delivery: string }[]
  const lost = ids.size - new Set(logged.map(row => row.delivery)).size
  const double =
    logged.length -
    new Set(logged.map(row => row.delivery)).size +
    effects.length -
    new Set(effects.map(row => row.delivery)).size
  if (lost !== 0) faults.push(`${lost} deliveries are not in the log.`)
  if (double !== 0) faults.push(`${double} effects happened twice.`)
  faults.push(...compareMirror(database, expected.mirror), ...compareOrder(database, files.journal))
  database.close()
  const ledger = await readLedger(files.database)
  faults.push(...ledger.faults)
  const { counters } = ledger
  if (ledger.deadByClass.format !== expected.broken)
    faults.push(`${ledger.deadByClass.format} dead letters of class format, ${expected.broken} expected.`)
  const sum = (name: 'done' | 'stale' | 'retried' | 'dead') =>
    counters.filter(row => row.consumer !== '').reduce((total, row) => total + row[name], 0)
  const sender = counters.find(row => row.consumer === '')
  return {
    faults,
    books: [
      ['sent', sender?.sent ?? 0],
      ['duplicates suppressed', answers.duplicates],
      ['refused (unsigned, cut)', answers.refused],
      ['done', sum('done')],
      ['stale', sum('stale')],
      ['retried', sum('retried')],
      [
        'dead',
        Object.entries(ledger.deadByClass)
          .map(([name, count]) => `${count} ${name}`)
          .join(', ') || 0,
      ],
      ['lost', lost],
      ['double effects', double],
    ],
  }
}

function compareMirror(database: DatabaseSync, expected: ReadonlyMap<string, MirrorRow>): string[] {
  const rows = database
    .prepare('select entity, title, state, updated_at, deleted from mirror')
    .all() as unknown as MirrorRow[]
  if (rows.length !== expected.size) return [`The mirror has ${rows.length} entities, ${expected.size} expected.`]
  const different = rows.filter(row => JSON.stringify(row) !== JSON.stringify(expected.get(row.entity)))
  return different.length > 0
    ? [`${different.length} entities of the mirror differ, the first is ${different[0]?.entity}.`]
    : []
}

/** The endpoint wrote down the first copies in the order of its answers. */
function compareOrder(database: DatabaseSync, journal: string): string[] {
  const answered = new Map<string, string[]>()
  for (const line of readFileSync(journal, 'utf8').split('\n').filter(Boolean)) {
    const [repository, delivery] = JSON.parse(line) as [string | null, string]
    if (repository !== null) answered.set(repository, [...(answered.get(repository) ?? []), delivery])
  }
  const select = database.prepare('select delivery from repository_log where repository = ? order by id')
  const wrong = [...answered].filter(([repository, deliveries]) => {
    const log = (select.all(repository) as { delivery: string }[]).map(row => row.delivery)
    return log.length !== deliveries.length || log.some((delivery, index) => delivery !== deliveries[index])
  })
  return wrong.length > 0
    ? [`The log of ${wrong.length} repositories is not in the order of the answers, the first is ${wrong[0]?.[0]}.`]
    : []
}

async function readLedger(path: string) {
  const store = sqlite(path)
  await store.open({ clock: systemClock, incarnation: 'checker', build: null, onTrouble: () => {} })
  try {
    const snapshot = await store.reads.ledger()
    const books = checkBooks(snapshot, await store.reads.sweep())
    const { letters } = await store.reads.deadLetters({ limit: 10_000 })
    const deadByClass: Record<string, number> = {}
    for (const letter of letters) deadByClass[letter.class] = (deadByClass[letter.class] ?? 0) + 1
    const faults = books.lines
      .filter(line => !line.balanced)
      .map(line => `The books do not balance: ${line.rule}: ${line.expected} and ${line.found}.`)
    return { counters: snapshot.counters, deadByClass, faults }
  } finally {
    await store.close()
  }
}

interface Circumstances {
  readonly kills: number
  readonly refused: number
  readonly idleAfterMs: number
  readonly seconds: number
}

export function printBooks({ faults, books }: Result, { kills, refused, idleAfterMs, seconds }: Circumstances): void {
  const circumstances = [
    ['worker killed (SIGKILL)', kills],
    ['dependency answered 503', refused],
    ['idle after the last request', `${(idleAfterMs / 1_000).toFixed(1)} s`],
    ['took', `${seconds.toFixed(1)} s`],
  ] as const
  console.log('')
  for (const [name, value] of [...books, ...circumstances])
    console.log(`  ${name.padEnd(28)}${String(value).padStart(10)}`)
  console.log('')
  for (const fault of faults) console.log(`✗ ${fault}`)
  if (faults.length === 0) console.log('✓ The books balance, the mirror is exact, and every log is in order.')
}
