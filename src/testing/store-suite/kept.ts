import { codeOf, type Tests } from '../test-framework.ts'
import { bytes, idsOf, message, numbered, ORDERS, type Scene } from './scene.ts'
import { altered } from './sends.ts'

const adopt = (scene: Scene, limit = 100) => scene.store.maintenance.adoptKept(limit)

export const kept: Tests<Scene> = {
  async 'a message that nobody consumes is kept for the first consumer'(scene) {
    scene.expect(await scene.send(message('m1'))).toEqual([{ id: 'm1', duplicate: false, kept: true, fanOut: 0 }])
    scene.expect((await scene.store.reads.status()).kept).toBe(1)
    scene.expect(await adopt(scene)).toBe(0)
    await scene.subscribe('billing')
    scene.expect([await adopt(scene), await adopt(scene)]).toEqual([1, 0])
    scene.expect(await scene.drain()).toEqual(['m1'])
    scene.expect(await scene.counters('')).toMatchObject({ sent: 1, fannedOut: 1, kept: 0 })
  },
  async 'a kept id sent again is a duplicate, and with other contents refused'(scene) {
    await scene.send(message('m1'))
    scene.expect(await scene.send(message('m1'))).toEqual([{ id: 'm1', duplicate: true, kept: true, fanOut: 0 }])
    scene.expect(await codeOf(() => scene.send(message('m2'), altered('m1')))).toBe('ID_REUSED')
    await scene.subscribe('billing')
    await adopt(scene)
    scene.expect(await scene.drain()).toEqual(['m1'])
    scene.expect(await scene.send(message('m1'))).toMatchObject([{ duplicate: true, kept: false }])
  },
  async 'kept messages keep their places before what is sent later'(scene) {
    const early = numbered('early', 5, { key: 'k' })
    await scene.send(...early)
    await scene.subscribe('billing')
    await scene.send(message('late', { key: 'k' }))
    scene
      .expect([await adopt(scene, 2), await adopt(scene, 2), await adopt(scene, 2), await adopt(scene, 2)])
      .toEqual([2, 2, 1, 0])
    scene.expect(await scene.drain()).toEqual([...early.map(({ id }) => id), 'late'])
  },
  async 'every consumer that is there at the adoption gets a copy'(scene) {
    await scene.send(message('m1', { sentAt: 55 }))
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    scene.expect(await adopt(scene)).toBe(1)
    const claim = await scene.claim('shipping')
    scene.expect(claim.deliveries).toMatchObject([{ id: 'm1', sentAt: 55 }])
    scene.expect(await scene.drain('billing')).toEqual(['m1'])
  },
  async 'a kept message that is delayed waits on'(scene) {
    await scene.send(message('soon', { delayMs: 5_000 }), message('later', { delayMs: 60_000 }))
    await scene.clock.advance(10_000)
    await scene.subscribe('billing')
    await adopt(scene)
    scene.expect(await scene.drain()).toEqual(['soon'])
    await scene.clock.advance(60_000)
    scene.expect(await scene.drain()).toEqual(['later'])
  },
  async 'only the topics that found a consumer are adopted'(scene) {
    await scene.send(message('m1'), message('n1', { topic: 'news' }))
    await scene.subscribe('billing', 'news')
    scene.expect(await adopt(scene)).toBe(1)
    scene.expect(await scene.drain()).toEqual(['n1'])
    scene.expect((await scene.store.reads.status()).kept).toBe(1)
  },
  async 'the id sent again before the adoption is delivered once'(scene) {
    await scene.send(message('m1'), message('m2'))
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await adopt(scene)
    scene.expect(await adopt(scene)).toBe(0)
    scene.expect((await scene.drain()).sort()).toEqual(['m1', 'm2'])
    scene.expect((await scene.store.reads.status()).kept).toBe(0)
  },
  async 'other contents under a kept id are refused before the adoption too, and no message is lost by it'(scene) {
    await scene.send(message('m1'), message('m2'))
    await scene.subscribe('billing')
    scene.expect(await codeOf(() => scene.send(altered('m1')))).toBe('ID_REUSED')
    scene.expect(await adopt(scene)).toBe(2)
    const claim = await scene.claim()
    scene.expect(idsOf(claim)).toEqual(['m1', 'm2'])
    scene.expect(Buffer.from(claim.deliveries[0]?.body ?? []).equals(Buffer.from(message('m1').body))).toBe(true)
  },
  async 'what is kept for too long becomes a case, and a late consumer still gets it'(scene) {
    await scene.send(message('old', { body: bytes('four') }))
    await scene.clock.advance(10_000)
    await scene.send(message('young'))
    const { maintenance } = scene.store
    scene.expect([await maintenance.expireKept(5_000), await maintenance.expireKept(5_000)]).toEqual([1, 0])
    const letters = await scene.letters()
    const letter = {
      id: 'old',
      topic: ORDERS,
      state: 'kept',
      code: 'NO_CONSUMER',
      label: 'never started',
      bodyBytes: 4,
    }
    scene.expect(letters).toMatchObject([{ ...letter, class: 'system', attempts: 0 }])
    await scene.subscribe('billing')
    await adopt(scene)
    scene.expect(await scene.drain()).toEqual(['old', 'young'])
    scene.expect(await scene.letters()).toEqual([])
  },
  async 'what is kept for too long can be discarded, once, and is traced while it is kept'(scene) {
    await scene.send(message('old'), message('other'))
    const name = { consumer: '', topic: ORDERS, id: 'old' }
    const by = { actor: 'me', reason: 'nobody wants it' }
    const discard = () => scene.store.transaction(session => session.cases.discard(name, by))
    scene.expect(await codeOf(discard)).toBe('NOT_FOUND')
    scene.expect(await scene.store.reads.trace('old')).toMatchObject([{ ...name, state: 'kept', history: [] }])
    await scene.clock.advance(10_000)
    await scene.store.maintenance.expireKept(5_000)
    scene
      .expect(await codeOf(() => scene.store.transaction(session => session.cases.redrive(name, by))))
      .toBe('CONFLICT')
    await discard()
    scene.expect(await codeOf(discard)).toBe('NOT_FOUND')
    scene.expect((await scene.letters()).map(letter => letter.id)).toEqual(['other'])
    scene.expect(await scene.store.reads.trace('old')).toEqual([])
    scene.expect(await scene.counters('')).toMatchObject({ sent: 2, kept: 1, discarded: 1 })
  },
}
