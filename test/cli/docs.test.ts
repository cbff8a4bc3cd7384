import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Place } from './command.ts'
import { trade } from './shop.ts'

// Every command that docs/cli.md quotes is run, in order, in one folder, and its output compared. After a change of the output:
// ICHIDO_UPDATE_DOCS=1 npm run test:unit -- test/cli/docs

const page = new URL('../../docs/cli.md', import.meta.url)
const update = process.env.ICHIDO_UPDATE_DOCS === '1'
const place = new Place()

beforeAll(() => writeFileSync(place.database, '', { mode: 0o600 }))
afterAll(() => place.remove())

interface Quote {
  readonly command: string
  readonly output: string
}

const blocks = /<!-- From here on the shop has traded\. -->|```console\n([\s\S]*?)```/g

function quotesOf(block: string): Quote[] {
  return block
    .split(/^\$ /m)
    .slice(1)
    .map(part => {
      const end = part.indexOf('\n')
      return { command: part.slice(0, end), output: part.slice(end + 1) }
    })
}

/** Frames of a stack name the files of one machine. */
function withoutFrames(text: string): string {
  return text.replace(/^ +at .*\n/gm, '')
}

/** Times, ages, versions, durations and what hangs on the machine are not what a page promises; nor are the widths that they cause. */
function essential(text: string): string {
  return withoutFrames(text)
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/\b\d+ (ms|s|min|h|days)\b/g, 'AGE')
    .replace(/"durationMs":[\d.]+/g, '"durationMs":0')
    .replace(/\b\d+\.\d+\.\d+\b/g, 'VERSION')
    .replace(/(file system\s+)\S+/, '$1TYPE')
    .replace(/(WAL\s+)\d+ bytes/, '$1BYTES')
    .replace(/[ \t]+/g, ' ')
    .replace(/ +$/gm, '')
    .trim()
}

/** A command that goes on until it is told to stop is told as soon as it works. */
async function runUntilSignal(command: string): Promise<string> {
  const running = place.start(...command.split(' ').slice(1))
  await running.seen(/"message":"running"/)
  running.child.kill('SIGTERM')
  await running.ended
  return running.output()
}

async function run(command: string): Promise<string> {
  if (command.startsWith('ichido run')) return runUntilSignal(command)
  const { out, err } = await place.shell(command)
  return withoutFrames(out + err)
}

async function rewritten(block: string): Promise<string> {
  const parts: string[] = []
  for (const { command } of quotesOf(block)) parts.push(`$ ${command}\n${await run(command)}`)
  return `\`\`\`console\n${parts.join('')}\`\`\``
}

test('what the page quotes is what the commands print', { timeout: 120_000 }, async () => {
  const text = readFileSync(page, 'utf8')
  let updated = ''
  let last = 0
  let quoted = 0
  for (const match of text.matchAll(blocks)) {
    const block = match[1]
    if (block === undefined) await trade(place.database)
    else if (update) {
      updated += text.slice(last, match.index) + (await rewritten(block))
      last = match.index + match[0].length
    } else {
      for (const { command, output } of quotesOf(block)) {
        expect(essential(await run(command)), command).toBe(essential(output))
        quoted++
      }
    }
  }
  if (update) writeFileSync(page, updated + text.slice(last))
  else expect(quoted).toBeGreaterThan(15)
})

test('the fields of the JSON answers are those that the page lists', { timeout: 60_000 }, async () => {
  const fresh = new Place()
  chmodSync(fresh.folder, 0o700)
  await trade(fresh.database)
  const documented = new Map<string, string[]>()
  for (const [, name = '', fields = ''] of readFileSync(page, 'utf8').matchAll(/^\| (`[a-z].*?) \| (`.*) \|$/gm))
    documented.set(
      name.replaceAll('`', ''),
      [...fields.matchAll(/`(\w+)`/g)].map(field => field[1] as string),
    )
  const order = ['order.placed', '{"orderId":"a","amount":1,"customer":"b"}']
  type Answer = Record<string, unknown> & Record<'consumers' | 'lines' | 'letters' | 'changes' | 'findings', object[]>
  const answers = new Map<string, object | undefined>()
  const ask = async (name: string, ...args: string[]) => {
    const answer = (await fresh.json(...args)) as unknown as Answer
    answers.set(name, answer)
    return answer
  }
  await ask('migrate --plan', 'migrate', '--plan')
  await ask('migrate', 'migrate')
  await ask('send', 'send', ...order)
  answers.set('status, each of consumers', (await ask('status', 'status')).consumers[0])
  answers.set('books, each of lines', (await ask('books', 'books')).lines[0])
  const [traced] = (await fresh.json('trace', 'order-3')) as { history: object[] }[]
  answers.set('trace, each', traced)
  answers.set('trace, each of history', traced?.history[1])
  answers.set('dead list, each of letters', (await ask('dead list', 'dead', 'list')).letters[0])
  const redrive = await ask('dead redrive', 'dead', 'redrive', 'order-2', '--reason', 'r')
  answers.set('dead redrive, each of changes', redrive.changes[0])
  answers.set('doctor, each of findings', (await ask('doctor', 'doctor')).findings[0])
  const [shown] = (await fresh.json('dead', 'show', 'order-2', '--payload')) as object[]
  expect(Object.keys(shown ?? {}).sort()).toEqual(
    [...(documented.get('dead list, each of letters') ?? []), 'payload'].sort(),
  )
  for (const [name, answer] of answers) {
    expect(Object.keys(answer ?? {}).sort(), name).toEqual(documented.get(name)?.sort())
  }
  fresh.remove()
})
