import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  claim,
  createScene,
  defer,
  finish,
  idsOf,
  message,
  register,
  type Scene,
  send,
  server,
} from './postgres-scene.ts'

// What only a server with several writers can refute: rows that become visible late, locks of others, releases that race.

describe.skipIf(server === undefined)('claims on PostgreSQL', () => {
  let scene: Scene
  beforeEach(async () => {
    scene = await createScene()
    await register(scene.store, 'p2')
  })
  afterEach(() => scene.close())

  /** Sends in a transaction of its own that stays open until the returned function is called. */
  async function sendLate(...ids: string[]): Promise<() => Promise<void>> {
    const client = await scene.pool.connect()
    await client.query('begin')
    await scene.store.join(client).deliveries.accept(ids.map(id => message(id, { key: 'k' })))
    return async () => {
      await client.query('commit')
      client.release()
    }
  }

  test('a row that becomes visible late does not run beside the follower that another process has leased', async () => {
    const commit = await sendLate('m1')
    await send(scene.store, message('m2', { key: 'k' }))
    const early = await claim(scene.store, 100, 'p2')
    expect(idsOf(early)).toEqual(['m2'])
    await commit()
    expect(idsOf(await claim(scene.store))).toEqual([])
    await finish(scene.store, early)
    expect(idsOf(await claim(scene.store))).toEqual(['m1'])
  })

  test('several late rows in front of a leased one are not taken one by one', async () => {
    const commit = await sendLate('m1', 'm2', 'm3')
    await send(scene.store, message('m4', { key: 'k' }))
    const early = await claim(scene.store, 100, 'p2')
    await commit()
    expect(idsOf(await claim(scene.store, 1))).toEqual([])
    await finish(scene.store, early)
    expect(idsOf(await claim(scene.store, 1))).toEqual(['m1'])
  })

  test('a hole that another claim holds locked, but has not leased yet, keeps the key', async () => {
    await send(scene.store, message('m1', { key: 'k' }), message('m2', { key: 'k' }), message('free'))
    const other = await scene.pool.connect()
    await other.query('begin')
    await other.query(`select 1 from ichido.delivery where message_id = 'm2' for update`)
    expect(idsOf(await claim(scene.store))).toEqual(['free'])
    await other.query('rollback')
    other.release()
    await expect.poll(async () => idsOf(await claim(scene.store))).toEqual(['m1', 'm2'])
  })

  test('followers are marked behind a dead head, and go on a thousand at a time when it is discarded', async () => {
    await send(scene.store, message('head', { key: 'k' }))
    await defer(scene.store, await claim(scene.store), { to: 'dead' })
    const followers = Array.from({ length: 2_500 }, (_, n) => message(`f${n}`, { key: 'k' }))
    for (let at = 0; at < 2_500; at += 500) await send(scene.store, ...followers.slice(at, at + 500))
    expect(idsOf(await claim(scene.store, 1_000))).toEqual([])
    expect(await count(`state = 'behind'`)).toBe(2_500)
    const name = { consumer: 'billing', topic: 'order', id: 'head' }
    await scene.store.transaction(session => session.cases.discard(name, { actor: 'test', reason: 'test' }))
    expect(await count(`state = 'ready'`)).toBe(1_000)
    const order: string[] = []
    for (;;) {
      const claimed = await claim(scene.store, 500)
      if (claimed.deliveries.length === 0) break
      order.push(...idsOf(claimed))
      await finish(scene.store, claimed)
    }
    expect(order).toEqual(followers.map(({ id }) => id))
  })

  test('no follower is stranded when claims mark while heads end', async () => {
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    for (let round = 0; round < 5; round++)
      await send(scene.store, ...keys.map(key => message(`${key}-${round}`, { key })))
    const seen = new Map<string, string[]>()
    let left = 100
    const failed = new Set<string>()
    const work = async (owner: string) => {
      while (left > 0) {
        const claimed = await claim(scene.store, 7, owner)
        const bad = claimed.deliveries.filter(({ id }) => id.endsWith('-0') && !failed.has(id))
        if (bad.length > 0) {
          for (const { id } of bad) failed.add(id)
          await defer(scene.store, claimed, { to: 'retry', delayMs: 20 })
          continue
        }
        if (claimed.deliveries.length > 0) await finish(scene.store, claimed)
        for (const { id, key } of claimed.deliveries) seen.set(key as string, [...(seen.get(key as string) ?? []), id])
        left -= claimed.deliveries.length
      }
    }
    await Promise.all([work('p1'), work('p2'), work('p1')])
    for (const key of keys) expect(seen.get(key)).toEqual([0, 1, 2, 3, 4].map(round => `${key}-${round}`))
    expect(await count('true')).toBe(0)
  })

  test('the reaper leaves a row that its paused owner holds locked, and takes it when it is free', async () => {
    await send(scene.store, message('m1'), message('m2'))
    const claimed = await claim(scene.store, 100, 'p2')
    const paused = await scene.pool.connect()
    await paused.query('begin')
    await paused.query(`select 1 from ichido.delivery where message_id = 'm1' for update`)
    await scene.pool.query(`update ichido.process set beat_at = now() - interval '1 hour' where incarnation = 'p2'`)
    expect(await scene.store.maintenance.reap(30_000, 3)).toMatchObject([{ incarnation: 'p2', suspects: 1, dead: [] }])
    expect(idsOf(await claim(scene.store, 100, 'p2'))).toEqual([])
    await paused.query('rollback')
    paused.release()
    expect(await scene.store.maintenance.reap(30_000, 3)).toMatchObject([{ incarnation: 'p2', suspects: 1 }])
    await expect(finish(scene.store, claimed)).rejects.toThrow('fenced: 0 of 2')
  })

  test('what a process that left has not given back is found, and its row stays until then', async () => {
    await send(scene.store, message('m1'))
    await claim(scene.store, 100, 'p2')
    await scene.store.leave('p2')
    await scene.pool.query(`update ichido.process set left_at = now() - interval '1 hour' where incarnation = 'p2'`)
    expect(await scene.store.maintenance.reap(30_000, 3)).toMatchObject([{ incarnation: 'p2', suspects: 1 }])
    expect(await count(`state = 'suspect' and attempts = 0`)).toBe(1)
  })

  test('keys and ids that the locale of the database sorts or equates otherwise', async () => {
    const ids = ['a', 'B', 'ä', 'A', 'b', '-a', 'a-', 'Z', 'é', 'e\u0301', '\u{1F600}', '\uFFFD']
    await send(scene.store, ...ids.map(id => message(id, { key: id })))
    expect((await send(scene.store, ...ids.map(id => message(id, { key: id })))).every(one => one.duplicate)).toBe(true)
    const claimed = await claim(scene.store)
    expect(idsOf(claimed)).toEqual(ids)
    await finish(scene.store, claimed)
    expect(await count('true')).toBe(0)
  })

  async function count(where: string): Promise<number> {
    return (await scene.pool.query(`select count(*)::int as n from ichido.delivery where ${where}`)).rows[0].n
  }
})
