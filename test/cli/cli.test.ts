import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Place, withoutPackage } from './command.ts'
import { trade } from './shop.ts'

const place = new Place()
const at = ['--store', place.address] as const

beforeAll(() => trade(place.database))
afterAll(() => place.remove())

describe('reading', () => {
  test('status tells what is dead and warns by its exit code', async () => {
    const { code, out } = await place.ichido('status', ...at)
    expect(code).toBe(1)
    expect(out).toMatch(/^billing +! dead letters +0 +– +1 +1 +2 +2 +0$/m)
    expect(out).toMatch(/^shipping +✓ no process +0 +– +1 +0 +0 +5 +0$/m)
    expect(out).toContain('1 message kept')
  })

  test('status is critical when a process was killed and nobody is left to notice', async () => {
    const silent = new Place()
    await trade(silent.database)
    const database = new DatabaseSync(silent.database)
    database.exec('update ichido_process set left_at = null, beat_at = beat_at - 600000')
    expect((await silent.ichido('status', '--store', silent.address)).out).toMatch(/billing +! silent for 10 min/)
    database.exec(`update ichido_delivery set state = 'ready' where message_id = 'order-6'`)
    database.close()
    const { code, out } = await silent.ichido('status', '--store', silent.address)
    expect(out).toMatch(/billing +✗ silent for 10 min/)
    expect(code).toBe(2)
    silent.remove()
  })

  test('books balance, and a row that was taken away by hand is found', async () => {
    const { code, out } = await place.ichido('books', ...at, '--sweep')
    expect(out).toContain('receiver billing: accepted 6 = done 2 + delayed 1 + behind 1 + dead 2')
    expect(out).toContain('✓ The books balance.')
    expect(code).toBe(0)
    const robbed = new Place()
    await trade(robbed.database)
    const database = new DatabaseSync(robbed.database)
    database.exec(`delete from ichido_delivery where message_id = 'order-6' and consumer = 'shipping'`)
    database.exec(`delete from ichido_identity where message_id = 'order-1' and consumer = 'shipping'`)
    database.close()
    const quick = await robbed.ichido('books', '--store', robbed.address)
    expect(quick.code).toBe(2)
    expect(quick.out).toMatch(/✗ accepted − ended = unfinished deliveries +1 ≠ 0/)
    expect(quick.out).not.toContain('finished identities')
    const swept = await robbed.ichido('books', '--store', robbed.address, '--sweep')
    expect(swept.out).toMatch(/✗ done by the counters = done identities +5 ≠ 4/)
    robbed.remove()
  })

  test('trace shows every attempt with planned and real times, and what is kept', async () => {
    const { code, out } = await place.ichido('trace', 'order-3', ...at)
    expect(code).toBe(0)
    expect(out).toMatch(/^order-3 at billing, topic order\.placed: done$/m)
    expect(out.match(/retry {2,}Error: the bank is busy/g)).toHaveLength(2)
    const [billing] = (await place.json('trace', 'order-3', ...at)) as { history: { lateMs: number | null }[] }[]
    expect(billing?.history.map(entry => entry.lateMs === null)).toEqual([true, false, false])
    const ids = ['order-6', 'order-5', 'news-1', 'gone']
    const [later, behind, kept, gone] = await Promise.all(ids.map(id => place.ichido('trace', id, ...at)))
    expect(later?.out).toMatch(/not due yet, due in (59|60) min/)
    expect(behind?.out).toContain('waits for an earlier message of its key')
    expect(kept?.out).toContain('news-1, topic news.written: kept')
    expect(gone).toMatchObject({ code: 2, out: '', err: expect.stringContaining('NOT_FOUND') })
  })

  test('dead letters tell cause and certainty; payloads only on request', async () => {
    const list = await place.ichido('dead', 'list', ...at)
    expect(list.code).toBe(1)
    expect(list.out).toMatch(/order-2 +billing +rolled back +1 +\d+ m?s +business, NO_ACCOUNT: nobody has no account/)
    expect((await place.ichido('dead', 'list', ...at, '--code', 'NOTHING')).out).toContain('✓ No dead letters.')
    const limited = await place.ichido('dead', 'list', ...at, '--limit', '1')
    expect(limited.out).toContain('1 of 2 dead letters')
    const show = await place.ichido('dead', 'show', 'order-2', ...at)
    expect(show.out).toContain('certainty  rolled back')
    expect(show.out).toContain('build v7')
    expect(show.out).not.toContain('"amount"')
    expect((await place.json('dead', 'show', 'order-2', ...at))[0]).not.toHaveProperty('payload')
    const payload = await place.ichido('dead', 'show', 'order-2', '--payload', ...at)
    expect(payload.out).toContain('{"orderId":"order-2","amount":30,"customer":"nobody"}')
  })

  test('doctor prints the guarantee in force, with the configuration’s own settings', async () => {
    const { out } = await place.ichido('doctor', ...at)
    expect(out).toContain('In force: effectively-once')
    expect(out).toMatch(/✓ journal_mode +wal/)
    expect(out).toMatch(/✓ consumer billing +topics order\.placed/)
    const configured = await place.ichido('doctor')
    expect(configured.out).toMatch(/✓ consumer billing +order by-key, dead letters block, topics order\.placed/)
  })

  test('doctor goes on where there are no tables, and says so', async () => {
    const empty = new Place()
    new DatabaseSync(empty.database).close()
    writeFileSync(empty.database, '')
    const { code, out } = await empty.ichido('doctor', '--store', empty.address)
    expect(code).toBe(2)
    expect(out).toMatch(/✗ schema +SCHEMA_MISSING/)
    expect(out).toContain('Not in force until')
    empty.remove()
  })
})

describe('the terminal', () => {
  test('gets no colour in a pipe, whatever CI says, and none with NO_COLOR', async () => {
    expect((await place.ichido('status', ...at)).out).not.toContain('\u001b')
    const forced = await place.with({ FORCE_COLOR: '1' }, 'status', ...at)
    expect(forced.out).toContain('\u001b[')
    expect((await place.with({ FORCE_COLOR: '1', NO_COLOR: '1' }, 'status', ...at)).out).not.toContain('\u001b')
  })

  test('a reader that goes away early is no error', async () => {
    const { code, err } = await place.shell(`ichido dead list --store ${place.address} --json | head -c 1; true`)
    expect({ code, err }).toEqual({ code: 0, err: '' })
  })

  test('nothing of a message can write on the screen', async () => {
    const hostile = new Place()
    const send = ['send', 'order.placed', '-', '--id', 'evil\u202eorder', '--key', 'k\u200b'] as const
    await hostile.ichido('migrate')
    const data = JSON.stringify({ orderId: '\u001b]0;owned\u0007', amount: 1, customer: 'mallory' })
    await hostile.shell(`printf '%s' "$DATA" | ichido ${send.join(' ')}`, { DATA: data })
    const run = hostile.start('run')
    await run.seen(/dead letter/)
    run.child.kill('SIGTERM')
    expect(await run.ended).toBe(0)
    const list = await hostile.ichido('dead', 'list')
    expect(list.out).toContain('evil\\u202eorder')
    expect(list.out).toContain('HOSTILE: \\u001b[2Jall is well\\u202e\\u0007⏎really')
    const show = await hostile.ichido('dead', 'show', 'evil\u202eorder', '--payload')
    expect(show.out).toContain('k\\u200b')
    const missing = await hostile.ichido('dead', 'show', 'gone\u001b[2J\u202e')
    const json = await hostile.ichido('dead', 'list', '--json')
    for (const text of [list.out, show.out, missing.err, json.out, run.output()])
      expect(text).not.toMatch(/[\u001b\u202e\u0007\u200b]/)
    expect(JSON.parse(json.out).letters[0].id).toBe('evil\u202eorder')
    const database = new DatabaseSync(hostile.database)
    database
      .prepare(`update ichido_delivery set body = ? where consumer = 'billing'`)
      .run(new Uint8Array([0xff, 0x00, 0x41]))
    database.close()
    const bytes = await hostile.ichido('dead', 'show', 'evil\u202eorder', '--payload')
    expect(bytes.out).toContain('body       not UTF-8, in hex: ff0041')
    hostile.remove()
  })
})

describe('mistakes are told with what to do, and without the password', () => {
  test.concurrent.each([
    ['a file that is not there', ['status', '--store', 'sqlite:nothing.db'], 'There is no database file nothing.db'],
    ['an address of nothing', ['status', '--store', 'mongodb://user:secret@host/x'], 'names no store'],
    ['an address with a slip', ['status', '--store', 'postgres:/user:secret@host/x'], 'names no store'],
    ['a server that is down', ['status', '--store', 'postgres://user:secret@127.0.0.1:1/x'], 'STORE_UNAVAILABLE'],
    ['a password with a space', ['status', '--store', 'postgres://u:the secret@h:x/x'], 'no address of a PostgreSQL'],
    ['two places', ['status', '--store', 'sqlite:shop.db', '--config', 'x.ts'], 'cannot be used with'],
    ['a configuration that is not there', ['run', '--config', 'gone.ts'], 'There is no file gone.ts'],
    ['an unknown command', ['statsu'], 'Did you mean status?'],
    ['an unknown option', ['status', '--jsno'], 'Did you mean --json?'],
    ['an argument too few', ['trace'], 'Add --help'],
    ['an unknown consumer', ['run', '--only', 'biling'], 'did you mean "billing"'],
    ['an unknown message', ['send', 'order.place', '{}'], 'did you mean "order.placed"'],
    ['data that are no JSON', ['send', 'order.placed', '{a:1}'], 'The data are not JSON'],
    ['a number that a double bends', ['send', 'order.placed', '{"amount":12345678901234567890}'], 'would become'],
    ['data that the schema refuses', ['send', 'order.placed', '{"amount":1}'], 'INVALID_MESSAGE'],
    ['no length of time', ['send', 'order.placed', '{}', '--delay', 'soon'], 'is no length of time'],
    ['a limit of nothing', ['dead', 'list', '--limit', '0'], 'whole number from 1 to 10000'],
    ['no reason', ['dead', 'discard', 'order-2', ...at], 'A reason is owed'],
    ['no dead letters', ['dead', 'discard', '--reason', 'r', ...at], 'Say which dead letters'],
    ['all of everybody', ['dead', 'redrive', '--all', '--reason', 'r', ...at], 'Add --consumer NAME'],
  ])('%s', async (_, args, text) => {
    const { code, err, out } = await place.ichido(...args)
    expect(err).toContain(text)
    expect(code).toBe(2)
    expect(err + out).not.toContain('secret')
  })

  test('as JSON too', async () => {
    const { err, code } = await place.ichido('status', '--store', 'postgres://u:secret@127.0.0.1:1/x', '--json')
    const { error } = JSON.parse(err)
    expect(error).toEqual({
      code: 'STORE_UNAVAILABLE',
      message: expect.any(String),
      hint: expect.any(String),
      retryable: true,
    })
    expect(error.message).toContain('postgres://u:•••@127.0.0.1:1/x')
    expect(code).toBe(2)
  })

  test('a configuration that throws', async () => {
    writeFileSync(join(place.folder, 'bad.mjs'), `import './gone.mjs'`)
    writeFileSync(join(place.folder, 'none.mjs'), 'export const a = 1')
    expect((await place.ichido('status', '--config', 'bad.mjs')).err).toMatch(/bad\.mjs cannot be loaded/)
    expect((await place.ichido('status', '--config', 'none.mjs')).err).toContain('export default defineIchido')
  })

  test('a driver that is not installed', async () => {
    const hooks = withoutPackage(place.folder, 'pg')
    const { err } = await place.with({ NODE_OPTIONS: `--import=${hooks}` }, 'status', '--store', 'postgres://u@h/x')
    expect(err).toContain('The PostgreSQL driver is not installed.')
    expect(err).toContain('npm install pg')
  })

  test('a database of somebody else stays as it is', async () => {
    const path = join(place.folder, 'other.db')
    const other = new DatabaseSync(path)
    other.exec('create table thing (id integer)')
    other.close()
    const before = readFileSync(path)
    const { err, code } = await place.ichido('status', '--store', `sqlite:${path}`)
    expect(err).toContain('Run `ichido migrate`.')
    expect(code).toBe(2)
    expect(readFileSync(path).equals(before)).toBe(true)
  })
})

test('every command explains itself, with examples', async () => {
  const commands = ['migrate', 'run', 'send', 'status', 'books', 'trace', 'doctor']
  const dead = ['list', 'show', 'redrive', 'discard', 'unblock'].map(verb => ['dead', verb])
  const explain = async (command: readonly string[]) => {
    const { code, out } = await place.ichido(...command, '--help')
    expect(out, command.join(' ')).toContain(`$ ichido ${command.join(' ')}`)
    expect(code).toBe(0)
  }
  await Promise.all([...commands.map(name => [name]), ...dead].map(explain))
})
