import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../scripts/services/postgres.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type PgPool, postgres } from '../../src/stores/postgres/store.ts'
import { type LossyProxy, startProxy } from '../proxy.ts'
import {
  claim,
  codeOf,
  createScene,
  defer,
  deferral,
  finish,
  idsOf,
  message,
  register,
  type Scene,
  send,
  server,
} from './postgres-scene.ts'

const host = { clock: systemClock, incarnation: 'px', build: null, onTrouble: () => {} }

describe.skipIf(server === undefined)('failures on PostgreSQL', () => {
  let scene: Scene
  beforeEach(async () => {
    scene = await createScene()
  })
  afterEach(() => scene.close())

  const count = async (where: string) =>
    (await scene.pool.query(`select count(*)::int as n from ichido.delivery where ${where}`)).rows[0].n

  /** Ends every other connection of this database, as an administrator or a failover does. */
  async function terminateOthers(): Promise<void> {
    const client = new pg.Client({ connectionString: scene.database.url })
    await client.connect()
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    await client.end()
  }

  test.each(['begin', 'lock', 'handler', 'finish'] as const)(
    'a backend that is terminated after %s rolls back, and nothing is lost',
    async phase => {
      await send(scene.store, message('m1'))
      await scene.pool.query('create table effect (id text)')
      const claimed = await claim(scene.store)
      const doomed: unknown[] = []
      const { deliveries, epoch } = claimed
      const at = async (here: string) => {
        if (here === phase) await terminateOthers()
      }
      const code = await codeOf(() =>
        scene.store.transaction(async session => {
          session.onDoomed(reason => doomed.push(reason))
          await at('begin')
          await session.deliveries.lock(deliveries, epoch)
          await at('lock')
          const lease = session.lease('billing')
          await lease.tx.run('insert into effect values ($1)', 'm1')
          await at('handler')
          lease.close()
          await session.deliveries.finish([{ delivery: deliveries[0]!, outcome: 'done', durationMs: 1 }], epoch)
          await at('finish')
        }),
      )
      expect(['STORE_UNAVAILABLE', 'COMMIT_UNKNOWN']).toContain(code)
      const resolve = () => scene.store.transaction(session => session.deliveries.resolve(deliveries, epoch))
      expect(await resolve()).toEqual(['mine'])
      expect((await scene.pool.query('select * from effect')).rows).toEqual([])
      await finish(scene.store, claimed)
      expect(await count('true')).toBe(0)
    },
  )

  test('a statement that the handler left in flight, or one after the end, cannot write', async () => {
    await scene.pool.query('create table effect (id text)')
    let kept: { run(sql: string): Promise<unknown> } | undefined
    let slow: Promise<unknown> | undefined
    const code = await codeOf(() =>
      scene.store.transaction(async session => {
        const lease = session.lease('billing')
        kept = lease.tx
        slow = lease.tx.run(`insert into effect select 'late' from pg_sleep(0.3)`).catch(() => {})
        const fault = lease.close()
        if (fault) throw fault
      }),
    )
    expect(code).toBe('TX_STATEMENT_IN_FLIGHT')
    expect(await codeOf(() => kept?.run(`insert into effect values ('later')`))).toBe('TX_CLOSED')
    await slow
    expect((await scene.pool.query('select * from effect')).rows).toEqual([])
  })

  test('transaction control is refused, also behind another statement', async () => {
    await scene.pool.query('create table effect (id text)')
    const statements = ['commit', '/* x */ rollback', 'begin', `insert into effect values ('x'); commit`]
    for (const statement of statements) {
      const run = scene.store.transaction(async session => {
        const lease = session.lease('billing')
        await lease.tx.run(statement)
        lease.close()
      })
      await expect(run, statement).rejects.toThrow()
    }
    expect((await scene.pool.query('select * from effect')).rows).toEqual([])
  })

  test('a failed statement that the handler swallowed is not committed as success', async () => {
    const code = await codeOf(() =>
      scene.store.transaction(async session => {
        await send_(session.lease('billing').tx)
      }),
    )
    expect(code).toBe('TX_STATEMENT_FAILED')
    async function send_(tx: { run(sql: string): Promise<unknown> }) {
      await tx.run('select 1 / 0').catch(() => {})
    }
  })

  test('a deadlock keeps its SQLSTATE and charges nobody', async () => {
    await scene.pool.query(`create table stock (id int primary key, n int); insert into stock values (1, 0), (2, 0)`)
    const both = (first: number, second: number, ready: Promise<void>, go: () => void) =>
      scene.store.transaction(async session => {
        const { tx } = session.lease('billing')
        await tx.run('update stock set n = n + 1 where id = $1', first)
        go()
        await ready
        await tx.run('update stock set n = n + 1 where id = $1', second)
      })
    const one = Promise.withResolvers<void>()
    const two = Promise.withResolvers<void>()
    const ends = await Promise.allSettled([both(1, 2, two.promise, one.resolve), both(2, 1, one.promise, two.resolve)])
    const failed = ends.filter(end => end.status === 'rejected')
    expect(failed).toHaveLength(1)
    expect((failed[0]!.reason as { code?: string }).code).toBe('40P01')
  })

  test('a server that became read only is told apart, and works again', async () => {
    const name = new URL(scene.database.url).pathname.slice(1)
    await scene.pool.query(`alter database ${name} set default_transaction_read_only = on`)
    await terminateOthers()
    const readOnly = await codeOf(() => claim(scene.store))
    const client = new pg.Client({ connectionString: scene.database.url })
    await client.connect()
    await client.query('set default_transaction_read_only = off')
    await client.query(`alter database ${name} reset default_transaction_read_only`)
    await client.end()
    await terminateOthers()
    expect(readOnly).toMatch(/STORE_READ_ONLY|nothing/)
    await expect.poll(() => codeOf(() => send(scene.store, message('m1')))).toBe('nothing')
  })

  test('every failure statement runs on the real engine', async () => {
    await send(scene.store, ...['a', 'b', 'c', 'd', 'e'].map(id => message(id, { key: id })))
    const claimed = await claim(scene.store)
    const bad = {
      class: 'system',
      code: 'X',
      message: 'nul \u0000, half \ud800 a pair',
      stack: '\udc00'.repeat(9),
    } as const
    const targets = ['retry', 'dead', 'dead', 'version', 'released'] as const
    const changed = await scene.store.transaction(session =>
      session.deliveries.defer(
        claimed.deliveries.map((delivery, n) =>
          deferral(delivery, { to: targets[n]!, onDead: n === 2 ? 'pass' : 'block', error: bad }),
        ),
        claimed.epoch,
      ),
    )
    expect(changed.size).toBe(5)
    const { rows } = await scene.pool.query('select message_id, state from ichido.delivery order by message_id')
    expect(rows.map(row => row.state)).toEqual(['retry', 'dead', 'passed', 'version', 'ready'])
    expect((await scene.store.reads.deadLetters({ limit: 10 })).total).toBe(2)
    expect((await defer(scene.store, claimed, { to: 'dead' })).size).toBe(0)
  })

  test('an id that another sender takes with other contents at the same moment leaves nothing written', async () => {
    const client = await scene.pool.connect()
    await client.query('begin')
    await scene.store.join(client).deliveries.accept([message('same')])
    const other = message('same', { hash: Buffer.from('another hash 16b') })
    const racing = codeOf(() => send(scene.store, message('new'), other))
    await expect
      .poll(async () => (await scene.pool.query(`select 1 from pg_locks where not granted`)).rows.length)
      .toBeGreaterThan(0)
    await client.query('commit')
    client.release()
    expect(await racing).toBe('ID_REUSED')
    expect(await count(`message_id = 'new'`)).toBe(0)
    const { counters } = await scene.store.reads.ledger()
    expect(counters.find(row => row.consumer === 'billing')?.accepted).toBe(1)
  })

  test('join refuses a pool, an idle client and one whose transaction was aborted', async () => {
    expect(await codeOf(() => scene.store.join(scene.pool as never))).toBe('TX_FOREIGN')
    const client = await scene.pool.connect()
    expect(await codeOf(() => scene.store.join(client))).toBe('TX_FOREIGN')
    await client.query('begin')
    await client.query('select 1 / 0').catch(() => {})
    // The driver learns of the abort with the end of the failed statement, after its error.
    await client.query('select 1').catch(() => {})
    expect(await codeOf(() => scene.store.join(client))).toBe('TX_FOREIGN')
    await client.query('rollback')
    client.release()
  })

  test('a purge waits for a transaction that began before the watermark, and ends its wait', async () => {
    await send(scene.store, message('old'))
    await finish(scene.store, await claim(scene.store))
    await scene.pool.query(
      `update ichido.identity set accepted_at = now() - interval '2 h', finished_at = now() - interval '1 h'`,
    )
    const slow = await scene.pool.connect()
    await slow.query('begin')
    await slow.query('select 1')
    expect(await scene.store.maintenance.purge('billing', 60_000, 100)).toBe(0)
    expect(await scene.store.maintenance.purge('billing', 60_000, 100)).toBe(0)
    const younger = await scene.pool.connect()
    await younger.query('begin')
    await younger.query('select 1')
    await slow.query('commit')
    expect(await scene.store.maintenance.purge('billing', 60_000, 100)).toBe(1)
    await younger.query('commit')
    slow.release()
    younger.release()
  })

  test('a real pool fits, and one that is exhausted says so', async () => {
    const small = scene.database.pool({ max: 1, connectionTimeoutMillis: 200 }) satisfies PgPool
    const store = postgres(small, { listen: false, preparedStatements: false })
    await store.open(host)
    const client = await small.connect()
    expect(await codeOf(() => claim(store))).toBe('STORE_UNAVAILABLE')
    client.release()
    expect(await codeOf(() => claim(store))).toBe('nothing')
    await store.close()
  })
})

describe.skipIf(server === undefined)('the answer to COMMIT on PostgreSQL', () => {
  let scene: Scene
  let proxy: LossyProxy
  let store: ReturnType<typeof postgres>
  beforeEach(async () => {
    scene = await createScene()
    const target = new URL(scene.database.url)
    proxy = await startProxy({ host: target.hostname, port: Number(target.port) })
    target.port = String(proxy.port)
    store = postgres(scene.database.pool({ connectionString: target.href }), { listen: false })
    await store.open(host)
  })
  afterEach(async () => {
    await store.close()
    await proxy.close()
    await scene.close()
  })

  test.each([
    ['drop answer', 'committed', 0],
    ['drop commit', 'mine', 1],
  ] as const)('is lost (%s): claiming again tells that it is %s', async (loss, resolution, left) => {
    await send(store, message('m1'))
    const claimed = await claim(store)
    proxy.onCommit = loss
    expect(await codeOf(() => finish(store, claimed))).toBe('COMMIT_UNKNOWN')
    const resolved = await store.transaction(session => session.deliveries.resolve(claimed.deliveries, claimed.epoch))
    expect(resolved).toEqual([resolution])
    expect((await scene.pool.query('select 1 from ichido.delivery')).rows).toHaveLength(left)
  })

  test('a connection that is cut is replaced', async () => {
    await send(store, message('m1'))
    proxy.cut()
    await expect
      .poll(async () => idsOf(await claim(store).catch(() => ({ deliveries: [], epoch: 0, nextDueInMs: null }))))
      .toEqual(['m1'])
  })
})

describe.skipIf(server === undefined)('a PostgreSQL server that goes away', () => {
  let own: PostgresServer
  let pool: pg.Pool
  beforeAll(async () => {
    own = await startPostgres({ version: Number(process.env.ICHIDO_TEST_POSTGRES_VERSION ?? 18), icuLocale: 'en' })
    pool = new pg.Pool({ connectionString: own.url, max: 6 })
  })
  afterAll(async () => {
    await pool?.end()
    await own?.stop()
  })

  test('down at open is an error that a retry mends; a restart loses nothing, and beats and hints come back', async () => {
    await own.kill()
    const troubles: string[] = []
    const store = postgres(pool)
    const onTrouble = (part: string) => troubles.push(part)
    expect(await codeOf(() => store.open({ ...host, onTrouble }))).toBe('STORE_UNAVAILABLE')
    await own.restart()
    await store.open({ ...host, onTrouble })
    await store.migrate()
    await store.subscribe([{ consumer: 'billing', topic: 'order', types: ['order'], fingerprint: 'f' }], true)
    await register(store, 'p1')
    const heartbeat = await store.heartbeat('p1', 100, () => {})
    let hints = 0
    const stop = store.onWork(() => hints++)
    await send(store, message('before'))
    await own.kill()
    // Down until a beat was missed: a server that is back within one beat is no trouble for anybody.
    await expect.poll(() => troubles, { timeout: 10_000 }).toContain('heartbeat')
    await own.restart()
    const retrying = <T>(work: () => Promise<T>) => expect.poll(() => codeOf(work), { timeout: 10_000 }).toBe('nothing')
    await retrying(() => send(store, message('after')))
    const beatAt = async () =>
      (await pool.query(`select beat_at from ichido.process where incarnation = 'p1'`)).rows[0].beat_at
    const first = await beatAt()
    await expect.poll(beatAt, { timeout: 10_000 }).not.toEqual(first)
    const other = new pg.Client({ connectionString: own.url })
    await other.connect()
    const seen = hints
    await expect
      .poll(
        async () => {
          await other.query(`select pg_notify('ichido', '')`)
          return hints
        },
        { timeout: 10_000 },
      )
      .toBeGreaterThan(seen)
    await other.end()
    const claimed = await claim(store)
    expect(idsOf(claimed)).toEqual(['before', 'after'])
    stop()
    await heartbeat.stop()
    await store.close()
  }, 60_000)
})
