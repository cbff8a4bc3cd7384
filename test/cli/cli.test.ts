import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineConsumer, defineIchido, defineMessage, PermanentError, start } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'

const bin = fileURLToPath(new URL('../../bin/ichido.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'ichido-cli-'))
const place = `sqlite:${join(folder, 'app.db')}`

interface Answer {
  readonly code: number
  readonly out: string
  readonly err: string
}

function ichido(...args: string[]): Promise<Answer> {
  return new Promise(resolve => {
    execFile(
      process.execPath,
      [bin, ...args],
      { cwd: folder, env: { ...process.env, NO_COLOR: '1' } },
      (error, out, err) => {
        resolve({ code: error ? Number(error.code) : 0, out, err })
      },
    )
  })
}

const order = defineMessage({ type: 'order', schema: z.object({ n: z.number() }) })

beforeAll(async () => {
  const store = sqlite(join(folder, 'app.db'))
  const billing = defineConsumer({
    store,
    name: 'billing',
    messages: [order],
    retry: { baseMs: 2, capMs: 4, maxAttempts: 3 },
    handle({ message, attempt }) {
      if (message.data.n === 2)
        throw new PermanentError('no \u001b[31maccount\u001b[0m\nat all', { code: 'NO_ACCOUNT' })
      if (message.data.n === 3 && attempt < 3) throw new Error('busy')
    },
  })
  await using running = await start(defineIchido({ store, consumers: [billing], pollMs: 20, build: 'v7' }))
  for (const n of [1, 2, 3]) await running.send(order, { n }, { id: `m${n}`, key: n === 2 ? 'k' : null })
  await running.send(order, { n: 4 }, { id: 'm4', key: 'k' })
  await running.idle()
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('reading', () => {
  test('status tells what is dead and warns by its exit code', async () => {
    const { code, out } = await ichido('status', '--store', place)
    expect(code).toBe(1)
    expect(out).toMatch(/billing\s+! dead letters\s+0\s+–\s+0\s+0\s+1\s+1\s+2\s+0/)
    expect(JSON.parse((await ichido('status', '--store', place, '--json')).out).consumers[0].states).toMatchObject({
      dead: 1,
      behind: 1,
    })
  })

  test('books balance', async () => {
    const { code, out } = await ichido('books', '--store', place, '--sweep')
    expect(out).toContain('✓ The books balance.')
    expect(code).toBe(0)
  })

  test('trace shows every attempt with planned and real times', async () => {
    const { code, out } = await ichido('trace', 'm3', '--store', place)
    expect(code).toBe(0)
    expect(out).toContain('m3 at billing (topic order): done')
    expect(out.match(/retry {2,}Error: busy/g)).toHaveLength(2)
    expect(await ichido('trace', 'nobody', '--store', place)).toMatchObject({
      code: 2,
      err: expect.stringContaining('NOT_FOUND'),
    })
  })

  test('dead letters are shown without what could write on the screen; payloads only on request', async () => {
    const list = await ichido('dead', 'list', '--store', place)
    expect(list.code).toBe(1)
    expect(list.out).toContain('no \\u001b[31maccount')
    expect(list.out).not.toContain('\u001b')
    const show = await ichido('dead', 'show', 'm2', '--store', place)
    expect(show.out).toContain('certainty  rolled back')
    expect(show.out).toContain('build v7')
    expect(show.out).not.toContain('{"n":2}')
    expect((await ichido('dead', 'show', 'm2', '--payload', '--store', place)).out).toContain('{"n":2}')
  })

  test('doctor prints the guarantee in force', async () => {
    const { out } = await ichido('doctor', '--store', place)
    expect(out).toContain('Grade effectively-once')
    expect(out).toMatch(/✓ journal_mode\s+wal/)
  })
})

describe('changing', () => {
  test('owes a reason, prints the plan, and changes nothing without --apply', async () => {
    expect(await ichido('dead', 'discard', 'm2', '--store', place)).toMatchObject({
      code: 2,
      err: expect.stringContaining('A reason is owed'),
    })
    const plan = await ichido('dead', 'discard', 'm2', '--reason', 'a try', '--store', place)
    expect(plan.out).toContain('Would discard 1 dead letter(s). Nothing was changed')
    expect(JSON.parse((await ichido('dead', 'list', '--store', place, '--json')).out).total).toBe(1)
  })

  test('redrive and discard do what they say, once', async () => {
    const redriven = await ichido(
      'dead',
      'redrive',
      'm2',
      'gone',
      '--reason',
      'fixed',
      '--actor',
      'me',
      '--apply',
      '--store',
      place,
    )
    expect(redriven).toMatchObject({ code: 1, out: expect.stringContaining('Redriven: 1 of 1.') })
    expect(redriven.out).toContain('gone is no open dead letter')
    expect(JSON.parse((await ichido('dead', 'list', '--store', place, '--json')).out).total).toBe(0)
    expect((await ichido('books', '--store', place)).code).toBe(0)
  })
})

describe('mistakes', () => {
  test.each([
    ['a file that is not there', ['status', '--store', 'sqlite:nothing.db'], 'There is no database file nothing.db'],
    ['an address of nothing', ['status', '--store', 'mongodb://user:secret@host/x'], 'names no store'],
    ['a server that is down', ['status', '--store', 'postgres://user:secret@127.0.0.1:1/x'], 'STORE_UNAVAILABLE'],
    ['no configuration', ['run'], 'There is no ichido.config.ts in this folder'],
    ['an unknown command', ['statsu'], 'Did you mean status?'],
  ])('%s is told with what to do, and without the password', async (_, args, text) => {
    const { code, err } = await ichido(...args)
    expect(code).toBe(2)
    expect(err).toContain(text)
    expect(err).not.toContain('secret')
  })
})

test('migrate, send and run work from a configuration', async () => {
  const index = fileURLToPath(new URL('../../src/index.ts', import.meta.url))
  const store = fileURLToPath(new URL('../../src/stores/sqlite/store.ts', import.meta.url))
  writeFileSync(
    join(folder, 'ichido.config.mjs'),
    `import { defineConsumer, defineIchido, defineMessage } from ${JSON.stringify(index)}
     import { sqlite } from ${JSON.stringify(store)}
     const store = sqlite('own.db')
     const schema = { '~standard': { version: 1, vendor: 'own', validate: value => ({ value }) } }
     const hello = defineMessage({ type: 'hello', schema })
     const greeter = defineConsumer({ store, name: 'greeter', messages: [hello], handle() { setImmediate(() => process.kill(process.pid, 'SIGTERM')) } })
     export default defineIchido({ store, consumers: [greeter] })`,
  )
  writeFileSync(join(folder, 'own.db'), '')
  expect((await ichido('migrate', '--plan')).out).toContain('create table ichido_identity')
  expect((await ichido('migrate')).out).toContain('Applied: core. Consumers: greeter.')
  expect((await ichido('migrate')).out).toContain('The tables were up to date.')
  expect((await ichido('send', 'helo', '{}')).err).toContain('did you mean "hello"')
  expect((await ichido('send', 'hello', '{"a":1}', '--id', 'h1')).out).toBe('h1 was sent.\n')
  expect((await ichido('send', 'hello', '{"a":1}', '--id', 'h1')).out).toContain('was sent before')
  const run = await ichido('run')
  expect(run).toMatchObject({ code: 0, out: expect.stringContaining('"message":"stopped"') })
  expect((await ichido('trace', 'h1', '--store', 'sqlite:own.db')).out).toContain('done at the first try')
})
