import { systemClock } from '../../runtime/clock.ts'
import { codeOf, type Tests } from '../test-framework.ts'
import { idsOf, keyed, message, numbered, type Scene } from './scene.ts'

/** What only a database with several store objects, or with a driver of the user's own, can show. */
export const together: Tests<Scene> = {
  async 'a process sees what another one sent, and continues its order'(scene) {
    if (!scene.subject.shared) return
    const other = await scene.another('p2')
    await scene.subscribe('billing')
    for (let n = 0; n < 3; n++) {
      await scene.send(...keyed('k', `a${n}`))
      await other.transaction(session => session.deliveries.accept(keyed('k', `b${n}`)))
    }
    const first = await scene.claim('billing', 'p1', 1)
    scene.expect(idsOf(first)).toEqual(['a0'])
    scene.expect(idsOf(await other.claim({ consumer: 'billing', owner: 'p2', max: 10, maxBytes: 1e6 }))).toEqual([])
    await scene.finish(first)
    await scene.clock.advance(300)
    const rest = await other.claim({ consumer: 'billing', owner: 'p2', max: 10, maxBytes: 1e6 })
    scene.expect(idsOf(rest)).toEqual(['b0', 'a1', 'b1', 'a2', 'b2'])
  },
  async 'many senders and claimers at once lose nothing, double nothing and keep the order of keys'(scene) {
    const others = scene.subject.shared ? [await scene.another('p2')] : []
    const stores = [scene.store, ...others]
    await scene.subscribe('billing')
    const sends = Array.from({ length: 20 }, (_, n) =>
      stores[n % stores.length]?.transaction(session =>
        session.deliveries.accept(numbered(`s${n}-`, 10, { key: `k${n % 5}` })),
      ),
    )
    await scene.meanwhile(Promise.all(sends), 10)
    const ran: string[] = []
    const work = async (owner: string, index: number) => {
      const store = stores[index % stores.length]
      for (let empty = 0; empty < 5; ) {
        const claim = await store?.claim({ consumer: 'billing', owner, max: 7, maxBytes: 1e6 })
        if (!claim?.deliveries.length) {
          empty++
          await scene.clock.advance(100)
          continue
        }
        const finished = claim.deliveries.map(delivery => ({ delivery, outcome: 'done' as const, durationMs: 1 }))
        ran.push(...idsOf(claim))
        await store?.transaction(async ({ deliveries }) => {
          await deliveries.lock(claim.deliveries, claim.epoch)
          await deliveries.finish(finished, claim.epoch)
        })
      }
    }
    await scene.meanwhile(Promise.all([work('p1', 0), work('p2', 1), work('p1', 1)]), 10)
    ran.push(...(await scene.drain()))
    scene.expect([ran.length, new Set(ran).size]).toEqual([200, 200])
    for (let n = 0; n < 20; n++) {
      const own = ran.filter(id => id.startsWith(`s${n}-`))
      scene.expect(own).toEqual(numbered(`s${n}-`, 10).map(({ id }) => id))
    }
  },
  async 'a send in the transaction of the user commits and rolls back with it'(scene) {
    const foreign = scene.fixture.foreign
    if (!foreign) return
    await scene.subscribe('billing')
    const undone = foreign(async tx => {
      await scene.store.join(tx).deliveries.accept([message('undone')])
      throw new Error('business')
    })
    scene.expect(await codeOf(() => undone)).toBe('Error: business')
    await foreign(async (tx, query) => {
      await query('create table own (id text)')
      await query(`insert into own values ('x')`)
      scene.expect(await scene.store.join(tx).deliveries.accept([message('m1')])).toMatchObject([{ fanOut: 1 }])
    })
    scene.expect(await scene.drain()).toEqual(['m1'])
    scene.expect(await scene.counters('')).toMatchObject({ sent: 1, fannedOut: 1 })
  },
  async 'a reused id in the transaction of the user leaves that transaction whole'(scene) {
    const foreign = scene.fixture.foreign
    if (!foreign) return
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await foreign(async (tx, query) => {
      await query('create table own (id text)')
      const { deliveries } = scene.store.join(tx)
      const other = { ...message('m1'), hash: new Uint8Array(16).fill(1) }
      scene.expect(await codeOf(() => deliveries.accept([message('m2'), other]))).toBe('ID_REUSED')
      await query(`insert into own values ('after')`)
      await deliveries.accept([message('m3')])
    })
    const rows = await scene.transaction(session => session.lease('').tx.all<{ id: string }>('select id from own'))
    scene.expect(rows.map(({ id }) => id)).toEqual(['after'])
    scene.expect(await scene.drain()).toEqual(['m1', 'm3'])
  },
  async 'what is no transaction is refused'(scene) {
    for (const tx of [null, undefined, {}, 'tx', { query: 1 }]) {
      scene
        .expect(await codeOf(() => scene.store.join(tx as never).deliveries.accept([message('m')])))
        .toBe('TX_FOREIGN')
    }
  },
}

/** Where several transactions can be open at once. */
export const overlapping: Tests<Scene> = {
  async 'a consumer that registers during a sender’s transaction still gets its message'(scene) {
    if (scene.store.facts.writers === 'one') return
    await scene.transaction(async session => {
      scene.expect(await session.deliveries.accept([message('m1')])).toMatchObject([{ kept: true }])
      await scene.subscribe('billing')
      scene.expect(await scene.store.maintenance.adoptKept(100)).toBe(0)
    })
    scene.expect(await scene.store.maintenance.adoptKept(100)).toBe(1)
    scene.expect(await scene.drain()).toEqual(['m1'])
  },
  async 'a sender that commits late does not run beside or before its place'(scene) {
    if (scene.store.facts.writers === 'one') return
    await scene.subscribe('billing')
    await scene.transaction(async session => {
      await session.deliveries.accept(keyed('k', 'first'))
      await scene.send(...keyed('k', 'second'), message('free'))
      const claim = await scene.claim()
      scene.expect(idsOf(claim)).toEqual(['second', 'free'])
      await scene.finish(claim)
    })
    scene.expect(await scene.drain()).toEqual(['first'])
  },
  async 'a row that became visible late does not run beside its leased follower'(scene) {
    if (scene.store.facts.writers === 'one') return
    await scene.subscribe('billing')
    const claim = await scene.transaction(async session => {
      await session.deliveries.accept(keyed('k', 'first'))
      await scene.send(...keyed('k', 'second'))
      return scene.claim('billing', 'p1')
    })
    scene.expect(idsOf(claim)).toEqual(['second'])
    scene.expect(idsOf(await scene.claim('billing', 'p2'))).toEqual([])
    await scene.finish(claim)
    scene.expect(await scene.drain('billing', 'p2')).toEqual(['first'])
  },
  async 'a row lock in a business transaction is a lease: the reaper passes it by'(scene) {
    if (scene.store.facts.writers === 'one') return
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const claim = await scene.claim()
    await scene.transaction(async ({ deliveries }) => {
      await deliveries.lock(claim.deliveries, claim.epoch)
      await scene.lose('p1', 'p3')
      scene.expect(idsOf(await scene.claimSuspect('billing', 'p3'))).toEqual([])
      await deliveries.finish(
        claim.deliveries.map(delivery => ({ delivery, outcome: 'done' as const, durationMs: 1 })),
        claim.epoch,
      )
    })
    scene.expect(await scene.stateOf('m1')).toBe('done')
  },
  async 'an identity that another transaction is inserting is waited for, and then decides'(scene) {
    if (scene.store.facts.writers === 'one') return
    const copy = scene.copy('m1')
    let late: Promise<unknown> = Promise.resolve()
    await scene.transaction(async ({ deliveries }) => {
      await deliveries.admit(scene.origin(), [copy], await deliveries.nextEpoch())
      late = scene.custody([copy], { to: 'dead' })
      await systemClock.sleep(50)
      await deliveries.conclude(scene.origin(), [{ copy, outcome: 'done' }])
    })
    scene.expect(await late).toEqual(['duplicate'])
    scene.expect(await scene.letters()).toEqual([])
  },
}

/** On the system's clock, because other threads beat. */
export const heartbeats: Tests<Scene> = {
  async 'a process that beats is not lost, and one that stopped beating is'(scene) {
    const lost: string[] = []
    const heartbeat = await scene.store.heartbeat('p1', 20, () => lost.push('p1'))
    await systemClock.sleep(2_000)
    const reaped = await scene.store.maintenance.reap(1_500, 3)
    scene.expect(reaped.map(entry => entry.incarnation)).toEqual(['p2'])
    await heartbeat.stop()
    await systemClock.sleep(2_000)
    scene.expect((await scene.store.maintenance.reap(1_500, 3)).map(entry => entry.incarnation)).toEqual(['p1'])
    scene.expect(lost).toEqual([])
  },
  async 'a process that was declared lost is told so'(scene) {
    await systemClock.sleep(50)
    await scene.store.maintenance.reap(10, 3)
    const told = Promise.withResolvers<string>()
    const heartbeat = await scene.store.heartbeat('p1', 20, () => told.resolve('lost'))
    const outcome = await Promise.race([told.promise, systemClock.sleep(5_000).then(() => 'not told')])
    await heartbeat.stop()
    scene.expect(outcome).toBe('lost')
  },
}
