import { codeOf, type Tests } from '../test-framework.ts'
import { BROKEN, idsOf, keyed, message, numbered, type Scene } from './scene.ts'

export const fences: Tests<Scene> = {
  async 'a lock counts the rows that are still mine'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 3))
    const claim = await scene.claim()
    const lock = () => scene.transaction(session => session.deliveries.lock(claim.deliveries, claim.epoch))
    scene.expect(await lock()).toBe(3)
    await scene.defer(claim, { to: 'released' }, claim.deliveries.slice(0, 1))
    scene.expect(await lock()).toBe(2)
  },
  async 'what a process lost it cannot finish, and its effects are undone'(scene) {
    await scene.subscribe('billing')
    await scene.transaction(session => session.lease('').tx.run('create table effect (id text)'))
    await scene.send(message('m1'))
    const claim = await scene.claim()
    await scene.lose('p1', 'p3')
    const late = scene.transaction(async session => {
      const lease = session.lease('billing')
      await lease.tx.run(`insert into effect values ('late')`)
      scene.expect(lease.close()).toBe(null)
      const finished = claim.deliveries.map(delivery => ({ delivery, outcome: 'done' as const, durationMs: 1 }))
      await session.deliveries.finish(finished, claim.epoch)
    })
    scene.expect(await codeOf(() => late)).toBe('FENCED')
    const effects = await scene.transaction(session => session.lease('').tx.all('select * from effect'))
    scene.expect(effects).toEqual([])
    scene.expect(await scene.stateOf('m1')).toBe('suspect')
  },
  async 'one row that is not mine undoes the whole batch, and the others stay mine'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 3))
    const claim = await scene.claim()
    await scene.defer(claim, { to: 'released' }, claim.deliveries.slice(1, 2))
    const other = await scene.claim('billing', 'p2')
    scene.expect(idsOf(other)).toEqual(['m1'])
    scene.expect(await codeOf(() => scene.finish(claim))).toBe('FENCED')
    scene.expect([await scene.stateOf('m0'), await scene.stateOf('m1')]).toEqual(['in progress', 'in progress'])
    const mine = claim.deliveries.filter(delivery => delivery.id !== 'm1')
    await scene.finish(claim, 'done', mine)
    await scene.finish(other)
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 3, done: 3 })
  },
  async 'what was given back cannot be finished, even before another claims it'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const claim = await scene.claim()
    await scene.store.releaseAll('p1')
    scene.expect(await codeOf(() => scene.finish(claim))).toBe('FENCED')
    scene.expect(await scene.drain('billing', 'p2')).toEqual(['m1'])
    scene.expect(await codeOf(() => scene.finish(claim))).toBe('FENCED')
    scene.expect(await scene.counters('billing')).toMatchObject({ done: 1 })
  },
  async 'nothing is finished twice, in one call or two'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const claim = await scene.claim()
    await scene.finish(claim)
    scene.expect(await codeOf(() => scene.finish(claim))).toBe('FENCED')
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 1, done: 1 })
  },
  async 'a deferral leaves alone what is not mine any more, and tells what it changed'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 2))
    const claim = await scene.claim()
    const [m0, m1] = claim.deliveries
    await scene.defer(claim, { to: 'released' }, m0 ? [m0] : [])
    const other = await scene.claim('billing', 'p2')
    const changed = await scene.defer(claim, { to: 'dead' })
    scene.expect([...changed]).toEqual([m1?.ref])
    scene.expect(await scene.stateOf('m0')).toBe('in progress')
    scene.expect((await scene.letters()).map(letter => letter.id)).toEqual(['m1'])
    await scene.finish(other)
  },
  async 'what is released was not tried: no attempt, at once claimable, its place kept'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.defer(await scene.claim(), { to: 'released' })
    const again = await scene.claim('billing', 'p2')
    scene.expect(again.deliveries).toMatchObject([
      { id: 'k1', attempt: 1 },
      { id: 'k2', attempt: 1 },
    ])
    await scene.finish(again)
    scene.expect(await scene.counters('billing')).toMatchObject({ retried: 0, done: 2 })
    scene.expect((await scene.store.reads.trace('k1'))[0]?.history).toEqual([])
  },
  async 'a process gives back all that it holds, and only that'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(...numbered('m', 4))
    await scene.claim('billing', 'p1', 2)
    await scene.claim('shipping', 'p1', 3)
    const others = await scene.claim('billing', 'p2', 1)
    scene.expect([await scene.store.releaseAll('p1'), await scene.store.releaseAll('p1')]).toEqual([5, 0])
    scene.expect((await scene.claim('billing', 'p2')).deliveries).toMatchObject([
      { id: 'm0', attempt: 1 },
      { id: 'm1', attempt: 1 },
      { id: 'm3', attempt: 1 },
    ])
    await scene.finish(others)
  },
  async 'a lost answer of COMMIT is told by the epoch'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 4))
    const claim = await scene.claim()
    const [done, mine, retried, stolen] = claim.deliveries
    if (!done || !mine || !retried || !stolen) throw new Error('four deliveries were sent')
    await scene.finish(claim, 'done', [done])
    await scene.defer(claim, { to: 'retry', delayMs: 60_000 }, [retried])
    await scene.defer(claim, { to: 'released' }, [stolen])
    await scene.drain('billing', 'p2')
    const resolutions = await scene.transaction(session =>
      session.deliveries.resolve([done, mine, retried, stolen], claim.epoch),
    )
    scene.expect(resolutions).toEqual(['committed', 'mine', 'gone', 'gone'])
  },
  async 'tokens grow with the claims'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 2))
    const first = await scene.claim('billing', 'p1', 1)
    const token = await scene.transaction(session => session.deliveries.nextEpoch())
    const second = await scene.claim('billing', 'p1', 1)
    scene.expect(token).toBeGreaterThan(first.epoch)
    scene.expect(second.epoch).toBeGreaterThan(token)
  },
  async 'only done counts as done'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('done'), message('stale'), message('open'))
    const claim = await scene.claim()
    await scene.finish(claim, 'done', claim.deliveries.slice(0, 1))
    await scene.finish(claim, 'stale', claim.deliveries.slice(1, 2))
    const isDone = (id: string, consumer = 'billing', topic = 'orders') =>
      scene.transaction(session => session.deliveries.isDone(consumer, topic, id))
    scene.expect(await isDone('done')).toBe(true)
    const others = [
      isDone('stale'),
      isDone('open'),
      isDone('none'),
      isDone('done', 'x'),
      isDone('done', 'billing', 'y'),
    ]
    scene.expect(await Promise.all(others)).toEqual([false, false, false, false, false])
  },
}

export const processes: Tests<Scene> = {
  async 'a process is lost when its beat ran out, not before'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.claim()
    await scene.clock.advance(29_000)
    scene.expect(await scene.store.maintenance.reap(30_000, 3)).toEqual([])
    const reaped = await scene.lose('p1', 'p3')
    scene.expect(reaped.find(entry => entry.incarnation === 'p1')).toEqual({
      incarnation: 'p1',
      suspects: 1,
      dead: [],
    })
    scene.expect(await scene.stateOf('m1')).toBe('suspect')
  },
  async 'what a lost process held waits as suspects, and holds its keys'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'), ...keyed('l', 'l1'))
    await scene.claim('billing', 'p1', 1)
    await scene.lose('p1', 'p3')
    scene.expect(await scene.drain('billing', 'p3')).toEqual(['l1'])
    scene.expect(await scene.store.suspects(['shipping', 'billing'])).toEqual(['billing'])
    const suspect = await scene.claimSuspect('billing', 'p3')
    scene.expect(suspect.deliveries).toMatchObject([{ id: 'k1', suspect: true, attempt: 1, deaths: 0, held: true }])
    await scene.finish(suspect)
    scene.expect(await scene.store.suspects(['billing'])).toEqual([])
    scene.expect(await scene.drain('billing', 'p3')).toEqual(['k2'])
  },
  async 'suspects come one at a time'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 3))
    await scene.claim()
    await scene.lose('p1', 'p3')
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      const claim = await scene.claimSuspect('billing', 'p3')
      ids.push(...idsOf(claim))
      scene.expect(claim.deliveries.length).toBe(1)
      await scene.finish(claim)
    }
    scene.expect(ids).toEqual(['m0', 'm1', 'm2'])
  },
  async 'a killer is found within its maximum, and its neighbours are not charged'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('n1'), message('killer'), message('n2'))
    await scene.claim()
    await scene.lose('p1', 'q0')
    const dead: unknown[] = []
    for (let life = 0; life < 8; life++) {
      const claim = await scene.claimSuspect('billing', `q${life}`)
      const [suspect] = claim.deliveries
      if (suspect?.id !== 'killer') {
        if (suspect) await scene.finish(claim)
        await scene.clock.advance(30_001)
        await scene.store.maintenance.reap(30_000, 3)
        await scene.process(`q${life + 1}`)
        continue
      }
      const reaped = await scene.lose(`q${life}`, `q${life + 1}`)
      dead.push(...reaped.flatMap(entry => entry.dead))
    }
    scene.expect(dead).toEqual([scene.name('killer')])
    const letter = { id: 'killer', code: 'KILLS_PROCESS', class: 'system', label: 'unknown', deaths: 3 }
    scene.expect(await scene.letters()).toMatchObject([letter])
    scene.expect([await scene.stateOf('n1'), await scene.stateOf('n2')]).toEqual(['done', 'done'])
    scene.expect((await scene.store.reads.trace('n1'))[0]?.attempts).toBe(1)
  },
  async 'deaths in company give the attempt back'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 2))
    await scene.claim()
    await scene.lose('p1', 'p3')
    const suspect = await scene.claimSuspect('billing', 'p3')
    scene.expect(suspect.deliveries).toMatchObject([{ attempt: 1, deaths: 0 }])
    await scene.lose('p3', 'p4')
    const again = await scene.claimSuspect('billing', 'p4')
    scene.expect(again.deliveries).toMatchObject([{ id: 'm0', deaths: 1 }])
  },
  async 'a suspect that fails is an ordinary failure'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.claim('billing', 'p1', 1)
    await scene.lose('p1', 'p3')
    await scene.defer(await scene.claimSuspect('billing', 'p3'), { to: 'retry', delayMs: 1_000, error: BROKEN })
    scene.expect(await scene.drain('billing', 'p3')).toEqual([])
    await scene.clock.advance(1_000)
    const claim = await scene.claim('billing', 'p3')
    scene.expect(claim.deliveries).toMatchObject([{ id: 'k1', attempt: 2, suspect: false }])
  },
  async 'a suspect that is given back stays one'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.claim()
    await scene.lose('p1', 'p3')
    await scene.defer(await scene.claimSuspect('billing', 'p3'), { to: 'released' })
    scene.expect(await scene.stateOf('m1')).toBe('suspect')
    await scene.claimSuspect('billing', 'p3')
    scene.expect(await scene.store.releaseAll('p3')).toBe(1)
    scene.expect(idsOf(await scene.claim('billing', 'p3'))).toEqual([])
    const claim = await scene.claimSuspect('billing', 'p3')
    scene.expect(claim.deliveries).toMatchObject([{ attempt: 1, deaths: 0 }])
  },
}
