import type { Tests } from '../test-framework.ts'
import { bytes, idsOf, keyed, message, numbered, type Scene } from './scene.ts'

export const claims: Tests<Scene> = {
  async 'come in order of pos, up to the limit, with one epoch'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 20))
    const first = await scene.claim('billing', 'p1', 7)
    const second = await scene.claim('billing', 'p2', 150)
    scene.expect(idsOf(first)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6'])
    scene.expect(second.deliveries.length).toBe(13)
    const places = [...first.deliveries, ...second.deliveries].map(delivery => delivery.pos)
    scene.expect(places).toEqual([...places].sort((a, b) => a - b))
    scene.expect(second.epoch).toBeGreaterThan(first.epoch)
  },
  async 'stop at the limit of bytes, but take at least one'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 5, { body: new Uint8Array(1_000) }))
    const claim = (maxBytes: number) => scene.store.claim({ consumer: 'billing', owner: 'p1', max: 100, maxBytes })
    scene.expect(idsOf(await claim(2_500))).toEqual(['m0', 'm1'])
    scene.expect(idsOf(await claim(10))).toEqual(['m2'])
    scene.expect(await scene.drain()).toEqual(['m3', 'm4'])
  },
  async 'hand nothing out twice'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    scene.expect(idsOf(await scene.claim('billing', 'p1'))).toEqual(['m1'])
    scene.expect(idsOf(await scene.claim('billing', 'p2'))).toEqual([])
    scene.expect(idsOf(await scene.claim('billing', 'p1'))).toEqual([])
  },
  async 'of one consumer leave the others alone'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(message('m1'))
    await scene.claim('billing')
    scene.expect(idsOf(await scene.claim('shipping', 'p2'))).toEqual(['m1'])
  },
  async 'of a process that nobody knows, that left or that was lost are empty'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    scene.expect(idsOf(await scene.claim('billing', 'stranger'))).toEqual([])
    await scene.store.leave('p2')
    scene.expect(idsOf(await scene.claim('billing', 'p2'))).toEqual([])
    await scene.lose('p1', 'p3')
    scene.expect(idsOf(await scene.claim('billing', 'p1'))).toEqual([])
    scene.expect(idsOf(await scene.claimSuspect('billing', 'p1'))).toEqual([])
    scene.expect(idsOf(await scene.claim('billing', 'p3'))).toEqual(['m1'])
  },
  async 'that find nothing tell when something becomes due'(scene) {
    await scene.subscribe('billing')
    scene.expect((await scene.claim()).nextDueInMs).toBe(null)
    await scene.send(message('m1', { delayMs: 10_000 }), message('m2', { delayMs: 20_000 }))
    const { nextDueInMs, deliveries } = await scene.store.claim({
      consumer: 'billing',
      owner: 'p1',
      max: 9,
      maxBytes: 9,
    })
    scene.expect([nextDueInMs, deliveries]).toEqual([10_000, []])
  },
  async 'may be made in the transaction that settles, where the store says so'(scene) {
    if (!scene.store.facts.chainsClaims) return
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'm1', 'm2'))
    const first = await scene.claim('billing', 'p1', 1)
    const next = await scene.transaction(async ({ deliveries }) => {
      await deliveries.lock(first.deliveries, first.epoch)
      const [delivery] = first.deliveries
      if (delivery) await deliveries.finish([{ delivery, outcome: 'done', durationMs: 1 }], first.epoch)
      return deliveries.claim({ consumer: 'billing', owner: 'p1', max: 10, maxBytes: 1_000 })
    })
    scene.expect(idsOf(next)).toEqual(['m2'])
    await scene.finish(next)
  },
  async 'of a rolled back transaction did not happen'(scene) {
    if (!scene.store.facts.chainsClaims) return
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const undone = scene.transaction(async ({ deliveries }) => {
      await deliveries.claim({ consumer: 'billing', owner: 'p1', max: 10, maxBytes: 1_000 })
      throw new Error('undo')
    })
    await undone.catch(() => {})
    const claim = await scene.claim('billing', 'p2')
    scene.expect(claim.deliveries).toMatchObject([{ id: 'm1', attempt: 1 }])
  },
}

export const keys: Tests<Scene> = {
  async 'one claim may take several of a key, in their order'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'a', 'b'), message('x'), ...keyed('k', 'c'))
    scene.expect(idsOf(await scene.claim())).toEqual(['a', 'b', 'x', 'c'])
  },
  async 'what is leased is a hole for every other claim, whoever makes it'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2', 'k3'), ...keyed('l', 'l1'), message('free'))
    const first = await scene.claim('billing', 'p1', 1)
    scene.expect(idsOf(first)).toEqual(['k1'])
    scene.expect(idsOf(await scene.claim('billing', 'p2', 1))).toEqual(['l1'])
    scene.expect(idsOf(await scene.claim('billing', 'p1'))).toEqual(['free'])
    scene.expect(idsOf(await scene.claim('billing', 'p2'))).toEqual([])
    await scene.finish(first)
    scene.expect(await scene.drain('billing', 'p2')).toEqual(['k2', 'k3'])
  },
  async 'messages without a key wait for nobody'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'), message('m2'))
    await scene.claim('billing', 'p1', 1)
    scene.expect(idsOf(await scene.claim('billing', 'p2'))).toEqual(['m2'])
  },
  async 'keys of two consumers have nothing to do with each other'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(...keyed('k', 'm1', 'm2'))
    await scene.claim('billing', 'p1', 1)
    scene.expect(await scene.drain('shipping', 'p2')).toEqual(['m1', 'm2'])
  },
  async 'keys are compared byte by byte'(scene) {
    await scene.subscribe('billing')
    const distinct = ['k', 'K', 'k ', 'é', 'e\u0301', 'ß', 'ss', '1', '01', '__proto__', 'constructor']
    await scene.send(...distinct.map((key, index) => message(`m${index}`, { key })))
    scene.expect(idsOf(await scene.claim('billing', 'p1', 1))).toEqual(['m0'])
    scene
      .expect((await scene.claim('billing', 'p2')).deliveries.map(delivery => delivery.key))
      .toEqual(distinct.slice(1))
  },
  async 'a hot key whose head is leased does not hide what stands behind it'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('hot', 3_000, { key: 'hot' }), ...keyed('cold', 'cold'), message('free'))
    const head = await scene.claim('billing', 'p1', 1)
    const seen: string[] = []
    for (let polls = 0; polls < 10 && seen.length < 2; polls++) seen.push(...idsOf(await scene.claim('billing', 'p2')))
    scene.expect(seen).toEqual(['cold', 'free'])
    await scene.finish(head)
    scene.expect(idsOf(await scene.claim('billing', 'p2', 2))).toEqual(['hot1', 'hot2'])
  },
  async 'a head that waits holds its followers and nobody else'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'), ...keyed('l', 'l1'), message('free'))
    const first = await scene.claim('billing', 'p1', 1)
    await scene.defer(first, { to: 'retry', delayMs: 60_000 })
    scene.expect(await scene.drain()).toEqual(['l1', 'free'])
    await scene.clock.advance(60_000)
    scene.expect(await scene.drain()).toEqual(['k1', 'k2'])
  },
  async 'thousands that wait behind a head are all let go, in order'(scene) {
    await scene.subscribe('billing')
    const followers = numbered('f', 2_600, { key: 'k', body: bytes('{}') })
    await scene.send(...keyed('k', 'head'), ...followers)
    await scene.kill(['head'])
    scene.expect(await scene.drain()).toEqual([])
    await scene.discard('head')
    scene.expect(await scene.drain('billing', 'p1', 1_000)).toEqual(followers.map(({ id }) => id))
  },
  async 'what arrives while followers wait comes after them'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    const first = await scene.claim('billing', 'p1', 1)
    await scene.defer(first, { to: 'retry', delayMs: 5_000 })
    scene.expect(await scene.drain()).toEqual([])
    await scene.send(...keyed('k', 'k3'))
    scene.expect(await scene.drain()).toEqual([])
    await scene.clock.advance(5_000)
    scene.expect(await scene.drain('billing', 'p1', 1)).toEqual(['k1', 'k2', 'k3'])
  },
}
