import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claim, createScene, defer, finish, message, type Scene, send, server } from './postgres-scene.ts'

// Plans are made and kept while the tables are empty, then a burst fills them and nobody has run ANALYZE: the worst moment of a queue.

const ROWS = 200_000
const burst = `with i as (
    insert into ichido.identity (consumer, topic, message_id, hash, state, accepted_at, delivery_id)
    select 'billing', 'order', 'b' || n, '\\x00', 'open', now(), nextval('ichido.delivery_id') from generate_series(1, ${ROWS}) n
    returning message_id, delivery_id)
  insert into ichido.delivery (id, consumer, topic, message_id, type, version, key, state, due_at, sent_at, headers, body)
  select delivery_id, 'billing', 'order', message_id, 'order', 1, case when delivery_id % 2 = 0 then 'k' || delivery_id % 5000 end,
    case when delivery_id % 4 = 3 then 'delayed' else 'ready' end, case when delivery_id % 4 = 3 then now() + interval '1 day' end,
    now(), '{}', convert_to(repeat('x', 200), 'UTF8') from i`

describe.skipIf(server === undefined)('plans on PostgreSQL', () => {
  let scene: Scene
  let round = 0
  beforeAll(async () => {
    scene = await createScene({ pool: { max: 1 } })
    await scene.pool.query(`alter table ichido.delivery set (autovacuum_enabled = off)`)
    await scene.pool.query(`alter table ichido.identity set (autovacuum_enabled = off)`)
    // A vacuumed table of one page: nothing is cheaper to scan.
    await send(scene.store, message('first'))
    await finish(scene.store, await claim(scene.store))
    await scene.pool.query('vacuum analyze ichido.delivery, ichido.identity')
    for (let n = 0; n < 8; n++) await oneOfEach()
    await scene.pool.query('vacuum analyze ichido.delivery, ichido.identity')
    await scene.pool.query(burst)
  }, 120_000)
  afterAll(() => scene?.close())

  /** What a worker and a sender do all the time, failures included. */
  async function oneOfEach(): Promise<void> {
    const name = `r${round++}`
    const { store } = scene
    await send(store, message(`${name}a`, { key: name }), message(`${name}b`, { key: name }), message(`${name}c`))
    await send(store, message(`${name}a`, { key: name }))
    await send(store, message(`${name}x`, { replaces: `${name}c` }))
    await send(store, message(`${name}d`, { delayMs: 1 }))
    await finish(store, await claim(store, 10))
    await defer(store, await claim(store, 1), { to: 'retry' })
    await defer(store, await claim(store, 1), { to: 'released' })
    await defer(store, await claim(store, 1), { to: 'dead', onDead: 'pass' })
    await finish(store, await claim(store, 100))
    await store.suspects(['billing'])
    await store.maintenance.clearSuspects('billing')
    await store.maintenance.releaseVersions('billing', { order: 1 })
    await store.maintenance.adoptKept(100)
    await store.maintenance.purge('billing', 3_600_000, 100)
    await store.reads.trace(`${name}a`)
    const origin = {
      consumer: 'billing',
      topic: 'order',
      onDead: 'block',
      keyed: true,
      marginMs: 0,
      acceptUnknownAge: false,
    } as const
    const copy = { ...message(`${name}t`, { key: name }), headers: {}, headersText: '{}', sentAt: Date.now() }
    await store.transaction(async ({ deliveries }) => {
      await deliveries.admit(origin, [copy], 1)
      await deliveries.resolve([], 1)
      await deliveries.isDone('billing', 'order', `${name}a`)
    })
  }

  async function scans(): Promise<Record<string, number>> {
    await scene.pool.query('select pg_stat_force_next_flush()')
    const { rows } =
      await scene.pool.query(`select relname, seq_scan::int as n, seq_tup_read::int as rows from pg_stat_user_tables
      where schemaname = 'ichido' and relname in ('delivery', 'identity')`)
    return Object.fromEntries(rows.map(row => [row.relname, row.n]))
  }

  test('no hot statement scans a table', async () => {
    const before = await scans()
    for (let n = 0; n < 8; n++) await oneOfEach()
    expect(await scans()).toEqual(before)
  }, 60_000)

  test('a claim that looks past what is delayed, and behind a hot key, touches few rows', async () => {
    await scene.pool.query(
      `update ichido.delivery set state = 'delayed', due_at = now() + interval '1 day' where state = 'ready' and key is null`,
    )
    const { rows: before } = await reads()
    const claimed = await claim(scene.store, 100)
    expect(claimed.deliveries.length).toBeGreaterThan(0)
    const { rows: after } = await reads()
    // The window, the keys of its rows, and dead entries of the index that the update left.
    expect(after - before).toBeLessThan(ROWS)
  }, 60_000)

  async function reads(): Promise<{ rows: number }> {
    await scene.pool.query('select pg_stat_force_next_flush()')
    const { rows } = await scene.pool.query(
      `select seq_tup_read::int as rows from pg_stat_user_tables where relname = 'delivery'`,
    )
    return rows[0]
  }

  test('the status of all of it is counted', async () => {
    const status = await scene.store.reads.status()
    const { states, inProgress } = status.consumers[0] as (typeof status.consumers)[0]
    const total = Object.values(states).reduce((sum, n) => sum + n, 0) + inProgress
    expect(total).toBe((await scene.pool.query('select count(*)::int as n from ichido.delivery')).rows[0].n)
  })
})
