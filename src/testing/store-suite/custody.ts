import type { StoredError } from '../../contracts/outcome.ts'
import { codeOf, type Tests } from '../test-framework.ts'
import { BROKEN, bytes, hashOf, idsOf, keyed, message, type Scene } from './scene.ts'

function other(scene: Scene, id: string) {
  const body = bytes('{"other":true}')
  return scene.copy(id, { body, hash: hashOf('order.placed', 1, null, body) })
}

function reusedId(scene: Scene, id: string): string {
  return `${id}~${Buffer.from(other(scene, id).hash).toString('hex').slice(0, 16)}`
}

export const admission: Tests<Scene> = {
  async 'a new copy runs, and its end is its identity'(scene) {
    scene.expect(await scene.admit([scene.copy('m1'), scene.copy('m2')])).toEqual(['run', 'run'])
    scene.expect(await scene.stateOf('m1')).toBe('done')
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 2, custody: 2, done: 2, repeats: 0 })
  },
  async 'a rollback leaves nothing, and the copy runs when it comes again'(scene) {
    const undone = scene.transaction(async ({ deliveries }) => {
      await deliveries.admit(scene.origin(), [scene.copy('m1')], await deliveries.nextEpoch())
      throw new Error('handler')
    })
    await undone.catch(() => {})
    scene.expect(await scene.stateOf('m1')).toBe('unknown')
    scene.expect(await scene.admit([scene.copy('m1')])).toEqual(['run'])
  },
  async 'a known copy is a duplicate, whatever state it is in'(scene) {
    await scene.admit([scene.copy('done')])
    await scene.custody([scene.copy('retry')])
    await scene.custody([scene.copy('dead')], { to: 'dead' })
    const copies = [scene.copy('done'), scene.copy('retry'), scene.copy('dead')]
    scene.expect(await scene.admit(copies)).toEqual(['duplicate', 'duplicate', 'duplicate'])
    scene.expect(await scene.custody(copies)).toEqual(['duplicate', 'duplicate', 'duplicate'])
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 3, repeats: 6 })
    scene.expect(await scene.letters()).toMatchObject([{ id: 'dead', repeats: 2 }])
  },
  async 'the same copy twice in a batch runs once'(scene) {
    scene.expect(await scene.admit([scene.copy('m1'), scene.copy('m1')])).toEqual(['run', 'duplicate'])
  },
  async 'what was sent through the store is known to the transport'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    scene.expect(await scene.admit([scene.copy('m1')])).toEqual(['duplicate'])
  },
  async 'other contents under a known id become a dead letter of their own'(scene) {
    await scene.admit([scene.copy('m1')])
    scene.expect(await scene.admit([other(scene, 'm1')])).toEqual(['reused'])
    const id = reusedId(scene, 'm1')
    scene
      .expect(await scene.letters())
      .toMatchObject([{ id, code: 'ID_REUSED', class: 'format', label: 'never started' }])
    scene.expect(await scene.stateOf('m1')).toBe('done')
    await scene.custody([other(scene, 'm1')])
    scene.expect(await scene.letters()).toMatchObject([{ id, repeats: 1 }])
    scene.expect(await codeOf(() => scene.redrive(id))).toBe('CONFLICT')
    await scene.edit(id, 'm1-mended')
    scene.expect(await scene.drain()).toEqual(['m1-mended'])
  },
  async 'reused ids can be discarded, and do not stop the rest of the batch'(scene) {
    await scene.admit([scene.copy('m1')])
    const verdicts = await scene.admit([scene.copy('a'), other(scene, 'm1'), scene.copy('b')])
    scene.expect(verdicts).toEqual(['run', 'reused', 'run'])
    await scene.discard(reusedId(scene, 'm1'))
    scene.expect(await scene.letters()).toEqual([])
  },
  async 'a copy behind an unfinished delivery of its key is stored in its turn'(scene) {
    await scene.custody([scene.copy('k1', { key: 'k' })], { to: 'retry', delayMs: 5_000 })
    const copies = [scene.copy('k2', { key: 'k' }), scene.copy('l1', { key: 'l' }), scene.copy('k3', { key: 'k' })]
    scene.expect(await scene.admit(copies)).toEqual(['stored', 'run', 'stored'])
    scene.expect(await scene.drain()).toEqual([])
    await scene.clock.advance(5_000)
    scene.expect(await scene.drain()).toEqual(['k1', 'k2', 'k3'])
    scene.expect(await scene.admit([scene.copy('k4', { key: 'k' })])).toEqual(['run'])
  },
  async 'copies of one key in one batch run one after another'(scene) {
    const copies = [scene.copy('k1', { key: 'k' }), scene.copy('k2', { key: 'k' })]
    scene.expect(await scene.admit(copies)).toEqual(['run', 'run'])
  },
  async 'without order by key nothing waits'(scene) {
    const origin = scene.origin({ keyed: false })
    await scene.custody([scene.copy('k1', { key: 'k' })], { to: 'dead' }, origin)
    scene.expect(await scene.admit([scene.copy('k2', { key: 'k' })], origin)).toEqual(['run'])
  },
  async 'neither a passed head nor one that is delayed holds a copy'(scene) {
    await scene.subscribe('billing')
    await scene.custody([scene.copy('k1', { key: 'k' })], { to: 'dead', onDead: 'pass' })
    await scene.send(message('later', { key: 'k', delayMs: 60_000 }))
    scene.expect(await scene.admit([scene.copy('k2', { key: 'k' })])).toEqual(['run'])
  },
  async 'ends other than done are corrected'(scene) {
    const origin = scene.origin()
    await scene.transaction(async ({ deliveries }) => {
      const copies = [scene.copy('stale'), scene.copy('ignored'), scene.copy('done')]
      await deliveries.admit(origin, copies, await deliveries.nextEpoch())
      await deliveries.conclude(
        origin,
        copies.map(copy => ({ copy, outcome: copy.id as 'stale' | 'ignored' | 'done' })),
      )
    })
    scene.expect([await scene.stateOf('stale'), await scene.stateOf('ignored')]).toEqual(['stale', 'ignored'])
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 3, stale: 1, ignored: 1, done: 1 })
  },
}

export const custodies: Tests<Scene> = {
  async 'a failed copy waits in the store and is tried again there'(scene) {
    const copy = scene.copy('m1', { key: 'k', headersText: '{"a":"b"}', sentAt: scene.clock.now() - 5 })
    scene.expect(await scene.custody([copy], { to: 'retry', delayMs: 2_000 })).toEqual(['stored'])
    scene.expect(await scene.drain()).toEqual([])
    await scene.clock.advance(2_000)
    const claim = await scene.claim()
    const { sentAt } = copy
    scene.expect(claim.deliveries).toMatchObject([{ id: 'm1', key: 'k', headers: '{"a":"b"}', attempt: 2, sentAt }])
    scene.expect(Buffer.from(claim.deliveries[0]?.body ?? []).equals(Buffer.from(copy.body))).toBe(true)
    await scene.finish(claim)
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 1, custody: 1, done: 1 })
    scene
      .expect((await scene.store.reads.trace('m1'))[0]?.history[0])
      .toMatchObject({ outcome: 'retry', code: 'BROKEN' })
  },
  async 'each place that an entry asks for'(scene) {
    const to = (state: 'ready' | 'dead' | 'suspect' | 'version') =>
      scene.custody([scene.copy(state, { version: state === 'version' ? 9 : 1 })], {
        to: state,
        attempts: state === 'dead' ? 1 : 0,
        error: state === 'dead' ? BROKEN : null,
        label: 'never started',
      })
    for (const state of ['ready', 'dead', 'suspect', 'version'] as const) {
      scene.expect(await to(state)).toEqual(['stored'])
      scene.expect(await scene.stateOf(state)).toBe(state)
    }
    scene.expect((await scene.claim()).deliveries).toMatchObject([{ id: 'ready', attempt: 1 }])
    scene.expect(await scene.letters()).toMatchObject([{ id: 'dead', code: 'BROKEN', attempts: 1, build: 'v1' }])
    scene.expect(await scene.store.maintenance.releaseVersions('billing', { 'order.placed': 9 })).toBe(1)
    scene.expect((await scene.claim()).deliveries).toMatchObject([{ id: 'version', attempt: 1 }])
  },
  async 'a copy that another process has done meanwhile is a duplicate, not a second run'(scene) {
    await scene.admit([scene.copy('m1')])
    scene.expect(await scene.custody([scene.copy('m1')], { to: 'dead' })).toEqual(['duplicate'])
    scene.expect([await scene.letters(), await scene.drain()]).toEqual([[], []])
  },
  async 'suspects of a transport are cleared when their possible owners have left'(scene) {
    await scene.clock.advance(1)
    await scene.custody([scene.copy('m1', { key: 'k' })], { to: 'suspect', attempts: 0, error: null })
    scene.expect(await scene.store.maintenance.clearSuspects('billing')).toBe(0)
    scene.expect(await scene.admit([scene.copy('m2', { key: 'k' })])).toEqual(['stored'])
    await scene.clock.advance(1_000)
    await scene.process('p3', ['billing'])
    await scene.store.leave('p1')
    await scene.store.leave('p2')
    scene.expect(await scene.store.maintenance.clearSuspects('billing')).toBe(1)
    const claim = await scene.claim('billing', 'p3')
    scene.expect(claim.deliveries[0]).toMatchObject({ id: 'm1', suspect: false })
  },
  async 'suspects of a transport are not cleared when a possible owner was lost'(scene) {
    await scene.custody([scene.copy('m1')], { to: 'suspect', attempts: 0, error: null })
    await scene.lose('p1', 'p3')
    scene.expect(await scene.store.maintenance.clearSuspects('billing')).toBe(0)
    scene.expect((await scene.claimSuspect('billing', 'p3')).deliveries).toMatchObject([{ id: 'm1', suspect: true }])
  },
  async 'what cannot be read is kept with its raw bytes, and counted when it comes again'(scene) {
    const body = Uint8Array.of(0xff, 0xfe, 0, 1)
    const error: StoredError = { class: 'format', code: 'UNDECODABLE', message: 'no', stack: null }
    const headers = JSON.parse('{"__proto__":"x","constructor":"y"}') as Record<string, string>
    const copy = { ...scene.copy('ignored'), id: null, type: null, version: null, sentAt: null, headers, body }
    const take = () =>
      scene.transaction(session =>
        session.deliveries.takeUnreadable(scene.origin(), [{ copy, rawId: 'raw~0123', error }]),
      )
    await take()
    await take()
    scene
      .expect(await scene.letters())
      .toMatchObject([{ id: 'raw~0123', code: 'UNDECODABLE', class: 'format', repeats: 1 }])
    const payload = await scene.store.reads.payload(scene.name('raw~0123'))
    scene.expect([...(payload?.body ?? [])]).toEqual([...body])
    scene.expect(Object.entries(JSON.parse(payload?.headers ?? '{}')).slice(0, 2)).toEqual(Object.entries(headers))
    scene.expect(await codeOf(() => scene.redrive('raw~0123'))).toBe('CONFLICT')
    await scene.discard('raw~0123')
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 1, custody: 1, discarded: 1, dead: 0 })
  },
}

/** Purges `done` and leaves the watermark at the time of its end. */
async function watermark(scene: Scene): Promise<number> {
  await scene.admit([scene.copy('done')])
  const finishedAt = scene.clock.now()
  await scene.clock.advance(100_000)
  scene.expect(await scene.purge('billing', 50_000)).toBe(1)
  return finishedAt
}

export const retention: Tests<Scene> = {
  async 'the purge deletes what ended long ago, and nothing else'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(message('a'), message('b'), message('c'), ...keyed('k', 'dead', 'behind'), message('leased'))
    await scene.drain('shipping')
    const claim = await scene.claim()
    const pick = (...ids: string[]) => claim.deliveries.filter(delivery => ids.includes(delivery.id))
    await scene.finish(claim, 'done', pick('a', 'b', 'c'))
    await scene.defer(claim, { to: 'dead' }, pick('dead'))
    await scene.defer(claim, { to: 'released' }, pick('behind'))
    await scene.clock.advance(100_000)
    await scene.send(message('young'))
    await scene.finish(await scene.claim())
    const purged = [await scene.purge('billing', 50_000, 2), await scene.purge('billing', 50_000, 2)]
    scene.expect(purged.reduce((sum, count) => sum + count)).toBe(3)
    scene.expect(await scene.purge('billing', 50_000, 2)).toBe(0)
    const states = await Promise.all(['a', 'dead', 'leased', 'young'].map(id => scene.stateOf(id)))
    scene.expect(states).toEqual(['unknown', 'dead', 'in progress', 'done'])
    scene.expect(await scene.stateOf('a', 'shipping')).toBe('done')
    scene.expect(await scene.counters('billing')).toMatchObject({ done: 4, purged: 3 })
  },
  async 'a copy older than the memory is never run again'(scene) {
    const at = await watermark(scene)
    scene.expect(await scene.admit([scene.copy('done', { sentAt: at - 1 })])).toEqual(['unprovable'])
    scene.expect(await scene.letters()).toMatchObject([{ id: 'done', code: 'UNPROVABLE' }])
    scene.expect(await scene.custody([scene.copy('x', { sentAt: at - 1 })])).toEqual(['unprovable'])
    scene.expect(await scene.drain()).toEqual([])
  },
  async 'the margin is added to the watermark, and the later of send and due time counts'(scene) {
    const at = await watermark(scene)
    const copies = [
      scene.copy('at', { sentAt: at + 1_000 }),
      scene.copy('after', { sentAt: at + 1_001 }),
      scene.copy('due', { sentAt: 5, dueAt: at + 1_001 }),
      scene.copy('early', { sentAt: 5, dueAt: at }),
    ]
    scene.expect(await scene.admit(copies)).toEqual(['unprovable', 'run', 'run', 'unprovable'])
  },
  async 'an unknown age runs only where that was accepted'(scene) {
    await watermark(scene)
    scene.expect(await scene.admit([scene.copy('x', { sentAt: null })])).toEqual(['unprovable'])
    const origin = scene.origin({ acceptUnknownAge: true })
    scene.expect(await scene.admit([scene.copy('y', { sentAt: null })], origin)).toEqual(['run'])
  },
  async 'what is still remembered is a duplicate however old it is'(scene) {
    await watermark(scene)
    await scene.admit([scene.copy('known')])
    scene.expect(await scene.admit([scene.copy('known', { sentAt: 1 })])).toEqual(['duplicate'])
  },
  async 'the watermark belongs to one consumer and one topic'(scene) {
    const at = await watermark(scene)
    const old = scene.copy('old', { sentAt: at - 5 })
    scene.expect(await scene.admit([old], scene.origin({ consumer: 'shipping' }))).toEqual(['run'])
    scene.expect(await scene.admit([{ ...old, topic: 'news' }], scene.origin({ topic: 'news' }))).toEqual(['run'])
  },
  async 'what waits in the store is its own memory, however old'(scene) {
    await scene.custody([scene.copy('old', { sentAt: 1_000 })], { to: 'retry', delayMs: 200_000 })
    await watermark(scene)
    await scene.clock.advance(200_000)
    scene.expect(await scene.drain('billing', 'p1')).toEqual(['old'])
  },
  async 'an unprovable copy that comes again is the same dead letter'(scene) {
    const at = await watermark(scene)
    const copy = scene.copy('x', { sentAt: at - 1 })
    scene.expect([await scene.admit([copy]), await scene.admit([copy])]).toEqual([['unprovable'], ['duplicate']])
    scene.expect(await scene.letters()).toMatchObject([{ id: 'x', repeats: 1 }])
    scene.expect(idsOf(await scene.claim())).toEqual([])
  },
}
