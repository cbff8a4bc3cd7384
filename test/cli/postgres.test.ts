import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineConsumer, defineIchido, defineMessage, PermanentError, start } from '../../src/index.ts'
import { postgres } from '../../src/stores/postgres/store.ts'
import { createDatabase, type TestDatabase } from '../stores/postgres-database.ts'
import { Place } from './command.ts'

const server = process.env.ICHIDO_TEST_POSTGRES

describe.skipIf(!server)('a store that is named by a postgres:// address', () => {
  let database: TestDatabase
  const place = new Place()
  const at = () => ['--store', database.url] as const
  const password = () => new URL(database.url).password

  beforeAll(async () => {
    database = await createDatabase(server as string)
  })
  afterAll(async () => {
    place.remove()
    await database.drop()
  })

  async function trade(): Promise<void> {
    const store = postgres(database.pool())
    const order = defineMessage({ type: 'order', schema: z.object({ n: z.number() }) })
    const billing = defineConsumer({
      store,
      name: 'billing',
      messages: [order],
      handle({ message }) {
        if (message.data.n === 2) throw new PermanentError('no account', { code: 'NO_ACCOUNT' })
      },
    })
    await using ichido = await start(defineIchido({ store, consumers: [billing], pollMs: 20 }))
    for (const n of [1, 2, 3]) await ichido.send(order, { n }, { id: `m${n}`, key: n === 1 ? null : 'k' })
    await ichido.idle()
  }

  test('is migrated, looked at, mended and diagnosed', async () => {
    expect((await place.ichido('status', ...at())).err).toContain('SCHEMA_MISSING')
    expect((await place.ichido('doctor', ...at())).out).toMatch(/✗ schema +SCHEMA_MISSING/)
    expect((await place.ichido('migrate', '--plan', ...at())).out).toContain('create table ichido.identity')
    const migrated = await place.ichido('migrate', ...at())
    expect(migrated.out).toContain(':•••@')
    expect(migrated.out).not.toContain(password())
    await trade()
    const looks = [['status'], ['books', '--sweep'], ['trace', 'm2'], ['dead', 'show', 'm2', '--payload'], ['doctor']]
    const [status, books, trace, show, doctor] = await Promise.all(looks.map(args => place.ichido(...args, ...at())))
    expect(status).toMatchObject({ code: 1, out: expect.stringMatching(/billing +! dead letters +0 +– +1 +1 +1 +0/) })
    expect(books).toMatchObject({ code: 0, out: expect.stringContaining('accepted 3 = done 1 + behind 1 + dead 1') })
    expect(trace?.out).toContain('m2 at billing, topic order: dead letter')
    expect(show?.out).toContain('body       {"n":2}')
    expect(doctor?.out).toMatch(/✓ synchronous_commit +on/)
    expect(doctor?.out).toMatch(/clock offset +-?\d+ ms/)
    // The pool is this command's own, and says nothing of the workers'.
    expect(doctor?.out).not.toContain('pool size')
    expect(doctor?.out).not.toContain(password())
  })

  test('dead letters are changed in it; a dry run changes nothing', async () => {
    const redrive = ['dead', 'redrive', 'm2', '--reason', 'mended', '--actor', 'ann', ...at()] as const
    expect((await place.ichido(...redrive)).out).toContain('Would redrive 1 dead letter.')
    const audited = async () => {
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      const { rows } = await client.query('select actor, reason, action from ichido.audit')
      await client.end()
      return rows
    }
    expect(await audited()).toEqual([])
    expect((await place.ichido(...redrive, '--apply')).out).toContain('Redriven: 1 of 1.')
    expect(await audited()).toEqual([{ actor: 'ann', reason: 'mended', action: 'redrive' }])
    expect((await place.ichido('status', ...at())).out).toMatch(/billing +✗ stopped +1/)
  })

  test('a wrong password is told without it', async () => {
    const url = new URL(database.url)
    url.password = 'wrong-secret'
    const { code, err } = await place.ichido('status', '--store', url.href)
    expect(code).toBe(2)
    expect(err).toContain('password authentication failed')
    expect(err).not.toContain('wrong-secret')
  })
})
