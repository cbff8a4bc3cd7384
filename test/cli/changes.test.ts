import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Place } from './command.ts'
import { trade } from './shop.ts'

const place = new Place()
const at = ['--store', place.address] as const

beforeAll(() => trade(place.database))
afterAll(() => place.remove())

function audit(): Record<string, unknown>[] {
  const database = new DatabaseSync(place.database, { readOnly: true })
  const rows = database.prepare('select actor, reason, action, target from ichido_audit order by id').all()
  database.close()
  return rows.map(row => ({ ...row }))
}

async function open(): Promise<string[]> {
  const { letters } = (await place.json('dead', 'list', ...at)) as { letters: { id: string }[] }
  return letters.map(letter => letter.id)
}

describe('dead letters', () => {
  test('a dry run is tried on the store itself, and leaves nothing behind', async () => {
    const plan = await place.ichido('dead', 'redrive', 'order-2', 'gone', '--reason', 'a try', ...at)
    expect(plan).toMatchObject({ code: 1, err: '' })
    expect(plan.out).toContain('! gone is no open dead letter.')
    expect(plan.out).toMatch(/order-2 +billing +NO_ACCOUNT +rolled back +would redrive/)
    expect(plan.out).toContain('Would redrive 1 dead letter. Nothing was changed: add --apply.')
    expect(await open()).toEqual(expect.arrayContaining(['order-2', 'order-4']))
    expect(audit()).toEqual([])
  })

  test('unblock lets the followers go on and keeps the dead letter', async () => {
    const unblock = ['dead', 'unblock', 'order-2', '--reason', 'independent', '--actor', 'ann', ...at] as const
    expect((await place.ichido(...unblock, '--apply')).out).toContain('Unblocked: 1 of 1.')
    expect(await open()).toContain('order-2')
    expect((await place.ichido('dead', 'show', 'order-2', ...at)).out).toContain('dead letter, its followers go on')
    expect((await place.ichido('trace', 'order-5', ...at)).out).toContain('order-5 at billing, topic order.placed: due')
    const again = await place.ichido(...unblock)
    expect(again.out).toContain('refused: The followers of order-2 may pass already.')
    expect(again.code).toBe(1)
  })

  test('redrive puts it through again, once, and the audit knows who and why', async () => {
    const redrive = ['dead', 'redrive', 'order-2', '--reason', 'account made', '--actor', 'ann', ...at] as const
    const value = (await place.json(...redrive, '--apply')) as { changes: object[] }
    expect(value).toMatchObject({ action: 'redrive', applied: true, actor: 'ann', reason: 'account made', selected: 1 })
    expect(value.changes).toEqual([
      { consumer: 'billing', topic: 'order.placed', id: 'order-2', outcome: 'applied', code: null, message: null },
    ])
    expect(await place.ichido(...redrive, '--apply')).toMatchObject({ code: 1 })
    expect(audit().at(-1)).toEqual({
      actor: 'ann',
      reason: 'account made',
      action: 'redrive',
      target: '["billing","order.placed","order-2"]',
    })
  })

  test('discard takes all of a consumer, by the user of this system', async () => {
    const discard = ['dead', 'discard', '--all', '--consumer', 'billing', '--reason', 'cancelled', ...at] as const
    expect((await place.ichido(...discard, '--apply')).out).toContain('Discarded: 1 of 1.')
    expect(await open()).toEqual([])
    expect(audit().at(-1)).toMatchObject({ action: 'discard', actor: expect.stringMatching(/./) })
    expect((await place.ichido('books', ...at, '--sweep')).code).toBe(0)
    expect((await place.ichido('dead', 'list', ...at)).code).toBe(0)
  })
})

describe('a configuration', () => {
  test('migrate plans, applies and registers; a changed consumer needs --accept', async () => {
    const fresh = new Place()
    const plan = await fresh.ichido('migrate', '--plan')
    expect(plan.out).toContain('create table ichido_identity')
    expect(plan.out).toContain('-- The consumer billing is new.')
    expect(await fresh.json('migrate', '--plan')).toMatchObject({ consumers: [{ name: 'billing', change: 'new' }, {}] })
    expect((await fresh.ichido('migrate')).out).toMatch(/Applied to .*: core.*\n✓ consumer billing: new/)
    expect((await fresh.ichido('migrate')).out).toContain('were up to date')
    expect((await fresh.ichido('migrate', '--plan')).out).toBe('-- The tables are up to date.\n')
    const database = new DatabaseSync(fresh.database)
    database.exec(`update ichido_subscription set fingerprint = 'other' where consumer = 'billing'`)
    database.close()
    const refused = await fresh.ichido('migrate')
    expect(refused.err).toContain('CONSUMER_CHANGED')
    expect(refused.err).toContain('migrate --accept')
    expect((await fresh.ichido('doctor')).out).toMatch(/✗ consumer billing/)
    expect((await fresh.ichido('migrate', '--accept')).out).toContain('consumer billing: changed, accepted')
    expect((await fresh.ichido('migrate', '--store', 'sqlite:new.db')).out).toContain('Applied to sqlite:new.db')
    fresh.remove()
  })

  test('send writes once for each id, and says what became of it', async () => {
    const data = '{"orderId":"o","amount":1,"customer":"zoe"}'
    expect((await place.ichido('send', 'order.placed', data, '--id', 's1')).out).toBe('s1 was sent.\n')
    expect((await place.ichido('send', 'order.placed', data, '--id', 's1')).out).toContain('was sent before')
    const reused = await place.ichido('send', 'order.placed', data.replace('1', '2'), '--id', 's1')
    expect(reused.err).toContain('ID_REUSED')
    const piped = await place.shell(`echo '${data}' | ichido send order.placed - --id s2 --delay 2h --key other --json`)
    expect(JSON.parse(piped.out)).toEqual({ id: 's2', duplicate: false, kept: false })
    expect((await place.ichido('trace', 's2', ...at)).out).toContain('not due yet, due in 2 h')
    expect((await place.ichido('send', 'news.written', '{"title":"a"}')).out).toContain('is kept')
    const bytes = await place.shell(`printf '"\\377"' | ichido send order.placed -`)
    expect(bytes.err).toContain('Standard input is not UTF-8')
  })

  test('run works until a signal, and gives up at once at the second one', async () => {
    await place.ichido('send', 'order.placed', '{"orderId":"r","amount":2000,"customer":"eve"}', '--id', 'r1')
    const run = place.start('run', '--only', 'billing')
    await run.seen(/"message":"dead letter".*"id":"r1"/)
    run.child.kill('SIGTERM')
    expect(await run.ended).toBe(0)
    const lines = run
      .output()
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(lines[0]).toMatchObject({ level: 'info', message: 'running', consumers: ['billing'], build: 'v7' })
    expect(lines.filter(line => line.message === 'a try failed' && line.id === 'r1')).toHaveLength(2)
    expect(lines.at(-1)).toMatchObject({ message: 'stopped' })
    expect(run.output()).not.toContain('"customer"')
    expect((await place.ichido('status', ...at)).out).toMatch(/shipping +✗ stopped/)
  })

  test('a second signal ends it at once', async () => {
    const busy = new Place()
    await busy.ichido('migrate')
    const run = busy.start('run', '--config', busy.slowConfig())
    await busy.ichido('send', 'nap', '{}', '--config', busy.slowConfig())
    await run.seen(/napping/)
    run.child.kill('SIGINT')
    await run.seen(/stopping/)
    run.child.kill('SIGINT')
    expect(await run.ended).toBe(2)
    busy.remove()
  })
})
