import type { Subscription } from '../../contracts/store.ts'
import { codeOf, type Tests } from '../test-framework.ts'
import { keyed, message, numbered, ORDERS, type Scene } from './scene.ts'

const subscription = (parts: Partial<Subscription> = {}): Subscription => {
  return { consumer: 'billing', topic: ORDERS, types: ['a'], fingerprint: 'f1', ...parts }
}

export const subscriptions: Tests<Scene> = {
  async 'are remembered, and those that a list lacks are left alone'(scene) {
    await scene.store.subscribe([subscription(), subscription({ topic: 'news' })], false)
    await scene.store.subscribe([subscription({ consumer: 'shipping' })], false)
    await scene.store.subscribe([subscription({ types: ['a', 'b'] })], false)
    const known = await scene.store.subscriptions()
    scene.expect(known.map(({ consumer, topic, types }) => [consumer, topic, types])).toEqual([
      ['billing', 'news', ['a']],
      ['billing', ORDERS, ['a', 'b']],
      ['shipping', ORDERS, ['a']],
    ])
  },
  async 'of another kind than before are refused, until that is accepted'(scene) {
    await scene.store.subscribe([subscription()], false)
    const changed = subscription({ fingerprint: 'f2' })
    scene.expect(await codeOf(() => scene.store.subscribe([changed], false))).toBe('CONSUMER_CHANGED')
    scene.expect((await scene.store.subscriptions())[0]?.fingerprint).toBe('f1')
    await scene.store.subscribe([changed], true)
    await scene.store.subscribe([changed], false)
    scene.expect((await scene.store.subscriptions())[0]?.fingerprint).toBe('f2')
  },
  async 'refused ones write nothing of their list'(scene) {
    await scene.store.subscribe([subscription()], false)
    const list = [subscription({ consumer: 'new' }), subscription({ fingerprint: 'f2' })]
    scene.expect(await codeOf(() => scene.store.subscribe(list, false))).toBe('CONSUMER_CHANGED')
    scene.expect((await scene.store.subscriptions()).map(({ consumer }) => consumer)).toEqual(['billing'])
  },
}

export const status: Tests<Scene> = {
  async 'counts what waits by state, and what runs'(scene) {
    const registeredAt = scene.clock.now()
    await scene.subscribe('billing')
    await scene.send(
      ...keyed('k', 'dead', 'behind'),
      message('retry'),
      message('delayed', { delayMs: 1e9 }),
      message('leased'),
    )
    const claim = await scene.claim()
    const pick = (id: string) => claim.deliveries.filter(delivery => delivery.id === id)
    await scene.defer(claim, { to: 'dead' }, pick('dead'))
    await scene.defer(claim, { to: 'released' }, pick('behind'))
    await scene.defer(claim, { to: 'retry', delayMs: 1e9 }, pick('retry'))
    await scene.claim()
    await scene.send(message('ready'))
    const { now, consumers, kept } = await scene.store.reads.status()
    scene.expect([now, kept]).toEqual([scene.clock.now(), 0])
    const [billing] = consumers
    const { ready = 0, behind = 0, ...states } = billing?.states ?? {}
    scene.expect(states).toMatchObject({ dead: 1, retry: 1, delayed: 1, version: 0, suspect: 0, passed: 0 })
    scene.expect(ready + behind).toBe(2)
    scene.expect([billing?.inProgress, billing?.processes, billing?.topics]).toEqual([1, 2, [ORDERS]])
    scene.expect(billing?.beatAt).toBe(registeredAt)
  },
  async 'tells the age of the oldest that waits or runs'(scene) {
    await scene.subscribe('billing')
    const oldest = async () => (await scene.store.reads.status()).consumers[0]?.oldestAt
    scene.expect(await oldest()).toBe(null)
    await scene.send(message('delayed', { sentAt: 1, delayMs: 1e9 }))
    scene.expect(await oldest()).toBe(null)
    await scene.send(message('m1', { sentAt: 5_000 }), message('m2', { sentAt: 4_000 }))
    scene.expect(await oldest()).toBe(4_000)
    const claim = await scene.claim()
    scene.expect(await oldest()).toBe(4_000)
    await scene.defer(claim, { to: 'dead' })
    scene.expect(await oldest()).toBe(null)
  },
  async 'lists a consumer that has nothing yet'(scene) {
    await scene.subscribe('billing')
    const { consumers } = await scene.store.reads.status()
    scene.expect(consumers).toMatchObject([{ consumer: 'billing', inProgress: 0, oldestAt: null }])
  },
  async 'the facts that the guarantees rest on are judged'(scene) {
    const findings = await scene.store.reads.diagnose()
    scene.expect(findings.length).toBeGreaterThan(0)
    for (const { name, value, level, note } of findings) {
      scene.expect(['ok', 'warning', 'critical'].includes(level), name).toBe(true)
      scene.expect(typeof value).toBe('string')
      scene.expect(level === 'ok' || (note ?? '').length > 0, `${name} says what to do`).toBe(true)
    }
  },
  async 'counters survive being folded, again and again'(scene) {
    await scene.subscribe('billing')
    for (let round = 0; round < 3; round++) {
      await scene.send(...numbered(`r${round}-`, 4))
      await scene.drain()
      await scene.store.maintenance.foldCounters()
      scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 4 * (round + 1), done: 4 * (round + 1) })
    }
    await scene.store.maintenance.foldCounters()
    scene.expect(await scene.counters('')).toMatchObject({ sent: 12, fannedOut: 12 })
  },
}

export const versions: Tests<Scene> = {
  async 'a version that is too new waits, uncounted, with its key, until the code knows it'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('v2', { version: 2, key: 'k' }), ...keyed('k', 'next'), message('v3', { version: 3 }))
    const claim = await scene.claim()
    const newer = claim.deliveries.filter(delivery => delivery.version > 1)
    await scene.defer(claim, { to: 'version', label: 'never started' }, newer)
    await scene.defer(
      claim,
      { to: 'released' },
      claim.deliveries.filter(delivery => delivery.version === 1),
    )
    scene.expect(await scene.drain()).toEqual([])
    const { maintenance } = scene.store
    scene.expect(await maintenance.releaseVersions('billing', { 'order.placed': 1, other: 9 })).toBe(0)
    scene.expect(await maintenance.releaseVersions('billing', { 'order.placed': 2 })).toBe(1)
    const released = await scene.claim()
    scene.expect(released.deliveries).toMatchObject([{ id: 'v2', attempt: 1, held: true }])
    await scene.finish(released)
    scene.expect(await scene.drain()).toEqual(['next'])
    scene.expect(await scene.stateOf('v3')).toBe('version')
    scene.expect((await scene.letters()).length).toBe(0)
  },
}

export const schema: Tests<Scene> = {
  async 'is complete after one migration, and a second one finds nothing to do'(scene) {
    scene.expect(await scene.store.pendingMigrations()).toEqual([])
    scene.expect(await scene.store.migrate()).toEqual([])
    await scene.store.checkSchema()
  },
  async 'a store is opened once'(scene) {
    const host = { clock: scene.clock, incarnation: 'again', build: null, onTrouble: () => {} }
    scene.expect(await codeOf(() => scene.store.open(host))).not.toBe('nothing')
    await scene.store.checkSchema()
  },
}
