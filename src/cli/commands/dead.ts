import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { changeDeadLetters, selectDeadLetters } from '../../cases/reprocess.ts'
import type { DeadLetter } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { Store } from '../../contracts/store.ts'
import { inWords } from '../../observe/wording.ts'
import { openStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { marked, shorten, table, time, visible } from '../terminal.ts'
import { type PlaceOptions, withPlace } from './place.ts'

interface ListOptions extends PlaceOptions {
  readonly consumer?: string
  readonly code?: string
  readonly limit: string
}

interface ChangeOptions extends PlaceOptions {
  readonly consumer?: string
  readonly code?: string
  readonly all?: boolean
  readonly reason?: string
  readonly actor?: string
  readonly apply?: boolean
}

export function addDead(program: Command): void {
  const dead = program.command('dead').description('dead letters: look at them, put them through again, or let them go')
  withPlace(dead.command('list').description('the open dead letters, oldest first'))
    .option('--consumer <name>', 'of this consumer only')
    .option('--code <code>', 'with this error code only')
    .option('--limit <n>', 'how many at most', '100')
    .action(list)
  withPlace(dead.command('show').description('one dead letter: what failed, why, what is certain'))
    .argument('<id>', 'the id of the message')
    .option('--payload', 'print headers and body too')
    .action(show)
  for (const action of ['redrive', 'discard'] as const) {
    const description =
      action === 'redrive'
        ? 'put dead letters through again, with their ids and places'
        : 'close dead letters for good; their followers go on'
    withPlace(dead.command(action).description(`${description}; prints what it would do unless --apply`))
      .argument('[ids...]', 'the ids of the messages')
      .option('--all', 'every dead letter that --consumer and --code select')
      .option('--consumer <name>', 'of this consumer only')
      .option('--code <code>', 'with this error code only')
      .option('--reason <text>', 'why; written to the audit')
      .option('--actor <name>', 'who (default: the user of this system)')
      .option('--apply', 'do it')
      .action((ids: string[], options: ChangeOptions) => change(action, ids, options))
  }
}

async function list(options: ListOptions): Promise<void> {
  const limit = Number(options.limit)
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= 10_000)) {
    throw new IchidoError('INVALID_CONFIG', `--limit ${options.limit} must be a whole number from 1 to 10000.`, {
      hint: 'Narrow the list with --consumer or --code.',
    })
  }
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const { consumer, code } = options
    const page = await opened.store.reads.deadLetters({
      limit,
      ...(consumer !== undefined && { consumer }),
      ...(code !== undefined && { code }),
    })
    const now = await opened.store.now()
    answer(options.json, page.total > 0 ? 'warning' : 'ok', page, () => {
      if (page.total === 0) return marked('ok', 'No dead letters.')
      const rows = page.letters.map(letter => {
        const cause = shorten(`${letter.code}: ${visible(letter.message)}`, 48)
        return [
          visible(letter.id),
          letter.consumer || '–',
          letter.class,
          cause,
          letter.label,
          letter.followers,
          inWords(now - letter.openedAt),
        ]
      })
      const count = page.letters.length < page.total ? `${page.letters.length} of ${page.total}` : `${page.total}`
      return `${table(['id', 'consumer', 'class', 'cause', 'certainty', 'behind', 'age'], rows)}\n${count} dead letter(s). Next: ichido dead show ID`
    })
  } finally {
    await opened.close()
  }
}

async function show(id: string, options: PlaceOptions & { payload?: boolean }): Promise<void> {
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const letters = await selectDeadLetters(opened.store, { id })
    if (letters.length === 0) throw new IchidoError('NOT_FOUND', `${opened.name} has no open dead letter ${id}.`)
    const shown = await Promise.all(
      letters.map(async letter => ({
        letter,
        payload: options.payload ? await payloadOf(opened.store, letter) : null,
      })),
    )
    const value = shown.map(({ letter, payload }) => ({ ...letter, ...(payload && { payload }) }))
    answer(options.json, 'warning', value, () =>
      shown.map(({ letter, payload }) => describe(letter, payload)).join('\n\n'),
    )
  } finally {
    await opened.close()
  }
}

/** Headers and body as text that cannot write on the screen; bytes that are not UTF-8 as hexadecimal digits. */
async function payloadOf(
  store: Store,
  letter: DeadLetter,
): Promise<{ headers: string; body: string; encoding: 'utf8' | 'hex' } | null> {
  const found = await store.reads.payload(letter)
  if (!found) return null
  const body = Buffer.from(found.body)
  try {
    return { headers: found.headers, body: new TextDecoder('utf-8', { fatal: true }).decode(body), encoding: 'utf8' }
  } catch {
    return { headers: found.headers, body: body.toString('hex'), encoding: 'hex' }
  }
}

function describe(letter: DeadLetter, payload: { headers: string; body: string; encoding: string } | null): string {
  const lines = [
    `${visible(letter.id)} at ${letter.consumer || '(no consumer)'}, topic ${visible(letter.topic)}, ${visible(letter.type)} version ${letter.version}`,
    `  what       ${letter.class}, ${letter.code}: ${visible(letter.message)}`,
    `  certainty  ${letter.label}`,
    `  attempts   ${letter.attempts} in cycle ${letter.cycle}, deaths ${letter.deaths}, repeats ${letter.repeats}`,
    `  sent       ${time(letter.sentAt)}, dead since ${time(letter.openedAt)}${letter.build ? `, build ${visible(letter.build)}` : ''}`,
    `  key        ${letter.key === null ? '–' : visible(letter.key)}, ${letter.followers} message(s) wait behind it, body ${letter.bodyBytes} bytes`,
  ]
  if (letter.stack)
    lines.push(
      ...letter.stack
        .split('\n')
        .slice(0, 8)
        .map(line => `    ${visible(line.trim())}`),
    )
  if (payload)
    lines.push(`  headers    ${visible(payload.headers)}`, `  body (${payload.encoding})  ${visible(payload.body)}`)
  lines.push(`  next       ichido dead redrive ${visible(letter.id)} --reason "…" --apply`)
  return lines.join('\n')
}

async function change(action: 'redrive' | 'discard', ids: readonly string[], options: ChangeOptions): Promise<void> {
  if (ids.length === 0 && !options.all)
    throw new IchidoError('INVALID_CONFIG', `Say which dead letters to ${action}.`, {
      hint: 'Give ids, or --all with --consumer.',
    })
  if (!options.reason?.trim())
    throw new IchidoError('INVALID_CONFIG', 'A reason is owed: it is written to the audit.', {
      hint: 'Add --reason "…".',
    })
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const { consumer, code } = options
    const filter = { ...(consumer !== undefined && { consumer }), ...(code !== undefined && { code }) }
    const found = options.all
      ? await selectDeadLetters(opened.store, filter)
      : (await Promise.all(ids.map(id => selectDeadLetters(opened.store, { ...filter, id })))).flat()
    const missing = options.all ? [] : ids.filter(id => !found.some(letter => letter.id === id))
    const by = { actor: options.actor ?? userInfo().username, reason: options.reason }
    const changes = options.apply ? await changeDeadLetters(opened.store, action, found, by) : null
    const failed = (changes ?? []).filter(entry => !entry.applied)
    const level = failed.length + missing.length > 0 ? 'warning' : 'ok'
    answer(
      options.json,
      level,
      { action, applied: options.apply === true, selected: found.length, missing, changes: changes ?? found },
      () => {
        const unknown = missing.map(id => marked('warning', `${visible(id)} is no open dead letter`))
        if (!changes) {
          const rows = found.map(letter => [visible(letter.id), letter.consumer, letter.code, letter.label])
          const plan = found.length > 0 ? `${table(['id', 'consumer', 'code', 'certainty'], rows)}\n` : ''
          return [
            ...unknown,
            `${plan}Would ${action} ${found.length} dead letter(s). Nothing was changed: add --apply.`,
          ].join('\n')
        }
        const problems = failed.map(entry => marked('warning', `${visible(entry.id)}: ${visible(entry.message ?? '')}`))
        return [
          ...unknown,
          ...problems,
          `${action === 'redrive' ? 'Redriven' : 'Discarded'}: ${changes.length - failed.length} of ${found.length}.`,
        ].join('\n')
      },
    )
  } finally {
    await opened.close()
  }
}
