import { selectDeadLetters } from '../../cases/reprocess.ts'
import type { DeadLetter } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { Store } from '../../contracts/store.ts'
import { inWords } from '../../observe/wording.ts'
import { withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { count, marked, table, time, visible, wrap } from '../terminal.ts'
import type { PlaceOptions } from './place.ts'

export interface ListOptions extends PlaceOptions {
  readonly consumer?: string
  readonly code?: string
  readonly limit: string
}

export function listLetters({ consumer, code, ...options }: ListOptions): Promise<void> {
  const limit = Number(options.limit)
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= 10_000)) {
    throw new IchidoError('INVALID_CONFIG', `--limit ${options.limit} must be a whole number from 1 to 10000.`, {
      hint: 'Narrow the list with --consumer or --code.',
    })
  }
  return withStore(options, 'look', async ({ store }) => {
    await store.checkSchema()
    const filter = { ...(consumer !== undefined && { consumer }), ...(code !== undefined && { code }) }
    const page = await store.reads.deadLetters({ limit, ...filter })
    const now = await store.now()
    answer(options.json, page.total > 0 ? 'warning' : 'ok', page, () => {
      if (page.total === 0) return marked('ok', 'No dead letters.')
      const shown = page.letters.length < page.total ? `${page.letters.length} of ` : ''
      const letters = page.letters[0] as DeadLetter
      return `${tableOf(page.letters, now)}\n${shown}${count(page.total, 'dead letter')}. Next: ichido dead show ${visible(letters.id)}`
    })
  })
}

function tableOf(letters: readonly DeadLetter[], now: number): string {
  const redriven = letters.some(letter => letter.cycle > 0)
  const rows = letters.map(letter => [
    visible(letter.id),
    visible(letter.consumer) || '–',
    letter.label,
    letter.followers,
    ...(redriven ? [letter.cycle] : []),
    inWords(now - letter.openedAt),
    `${letter.class}, ${causeOf(letter)}`,
  ])
  return table(['id', 'consumer', 'certainty', 'behind', ...(redriven ? ['cycle'] : []), 'age', 'cause'], rows)
}

function causeOf({ code, message }: DeadLetter): string {
  return `${visible(code)}: ${visible(message)}`
}

interface ShownPayload {
  readonly headers: string
  readonly body: string
  /** Bytes that are not UTF-8 are shown as hexadecimal digits. */
  readonly encoding: 'utf8' | 'hex'
}

type ShowOptions = PlaceOptions & { readonly consumer?: string; readonly payload?: boolean }

export function showLetters(id: string, { consumer, ...options }: ShowOptions): Promise<void> {
  return withStore(options, 'look', async ({ store, name }) => {
    await store.checkSchema()
    const letters = await selectDeadLetters(store, { id, ...(consumer !== undefined && { consumer }) })
    if (letters.length === 0) {
      const hint = 'See what became of it with `ichido trace`.'
      throw new IchidoError('NOT_FOUND', `${name} has no open dead letter ${id}.`, { hint })
    }
    const now = await store.now()
    const shown: { letter: DeadLetter; payload: ShownPayload | null }[] = []
    for (const letter of letters)
      shown.push({ letter, payload: options.payload ? await payloadOf(store, letter) : null })
    const value = shown.map(({ letter, payload }) => ({ ...letter, ...(payload && { payload }) }))
    answer(options.json, 'warning', value, () => {
      return shown.map(({ letter, payload }) => describe(letter, payload, now, shown.length === 1)).join('\n\n')
    })
  })
}

async function payloadOf(store: Store, letter: DeadLetter): Promise<ShownPayload | null> {
  const found = await store.reads.payload(letter)
  if (!found) return null
  const { headers, body } = found
  try {
    // A byte order mark is kept: what is shown must be what is there.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
    return { headers, body: text, encoding: 'utf8' }
  } catch {
    return { headers, body: Buffer.from(body).toString('hex'), encoding: 'hex' }
  }
}

const STACK_LINES = 8

function describe(letter: DeadLetter, payload: ShownPayload | null, now: number, alone: boolean): string {
  const { id, consumer, topic, type, version, state, attempts, cycle, deaths, repeats, followers } = letter
  const place = consumer === '' ? 'without a consumer' : `at ${visible(consumer)}`
  const build = letter.build === null ? '' : `, build ${visible(letter.build)}`
  const counts = [count(attempts, 'attempt'), count(deaths, 'death'), count(cycle, 'redrive')]
  const lines = [
    `${visible(id)} ${place}: ${state === 'dead' ? 'dead letter' : state === 'passed' ? 'dead letter, its followers go on' : 'kept beyond its time'}`,
    `  what       ${wrap(`${letter.class}, ${causeOf(letter)}`, 13)}`,
    ...stackOf(letter),
    `  certainty  ${letter.label}`,
    `  message    ${visible(type)} version ${version}, topic ${visible(topic)}, ${count(letter.bodyBytes, 'byte')}`,
    `  key        ${letter.key === null ? 'none' : `${visible(letter.key)}, ${count(followers, 'message')} behind it`}`,
    `  sent       ${time(letter.sentAt)}`,
    `  dead       ${time(letter.openedAt)} (${inWords(now - letter.openedAt)} ago)${build}`,
    `  history    ${counts.join(', ')}${repeats > 0 ? `, came again ${count(repeats, 'time')}` : ''}`,
  ]
  if (payload) {
    lines.push(`  headers    ${visible(payload.headers)}`)
    lines.push(`  body       ${payload.encoding === 'hex' ? 'not UTF-8, in hex: ' : ''}${visible(payload.body)}`)
  }
  const next = state === 'kept' ? 'discard' : 'redrive'
  const which = alone || consumer === '' ? '' : ` --consumer ${visible(consumer)}`
  lines.push(`  next       ichido dead ${next} ${visible(id)}${which} --reason "…"`)
  return lines.join('\n')
}

/** The message stands in the first line of most stacks already. */
function stackOf({ stack, message }: DeadLetter): string[] {
  if (stack === null) return []
  const at = stack.indexOf(message)
  const frames = (at < 0 ? stack : stack.slice(at + message.length)).split('\n').map(line => line.trim())
  return frames
    .filter(line => line !== '')
    .slice(0, STACK_LINES)
    .map(line => `               ${visible(line)}`)
}
