import type { Tests } from '../test-framework.ts'
import { BROKEN, idsOf, keyed, message, numbered, type Scene } from './scene.ts'

export const timers: Tests<Scene> = {
  async 'a delayed message enters the order at its end, when it is due'(scene) {
    await scene.subscribe('billing')
    const dueAt = scene.clock.now() + 10_000
    await scene.send(message('delayed', { key: 'k', delayMs: 10_000 }), ...keyed('k', 'k1'))
    scene.expect(await scene.drain()).toEqual(['k1'])
    const blocker = await scene.send(...keyed('k', 'k2')).then(() => scene.claim())
    await scene.clock.advance(10_000)
    scene.expect(idsOf(await scene.claim())).toEqual([])
    await scene.send(...keyed('k', 'k3'))
    await scene.finish(blocker)
    const claim = await scene.claim()
    scene.expect(idsOf(claim)).toEqual(['delayed', 'k3'])
    scene.expect(claim.deliveries[0]?.plannedAt).toBe(dueAt)
  },
  async 'a due time wins over a delay, and one in the past is now'(scene) {
    await scene.subscribe('billing')
    const now = scene.clock.now()
    await scene.send(
      message('past', { dueAt: now - 5_000 }),
      message('wins', { dueAt: now + 1_000, delayMs: 90_000 }),
      message('none', { delayMs: 0 }),
    )
    scene.expect(await scene.drain()).toEqual(['past', 'none'])
    await scene.clock.advance(1_000)
    scene.expect(await scene.drain()).toEqual(['wins'])
  },
  async 'delayed messages become due in the order of their times'(scene) {
    await scene.subscribe('billing')
    await scene.send(
      message('c', { delayMs: 3_000 }),
      message('a', { delayMs: 1_000 }),
      message('b', { delayMs: 2_000 }),
    )
    await scene.clock.advance(5_000)
    scene.expect(await scene.drain()).toEqual(['a', 'b', 'c'])
  },
  async 'what is due at the same time enters the order as it was sent'(scene) {
    await scene.subscribe('billing')
    const together = numbered('m', 30, { key: 'k', delayMs: 5_000 })
    await scene.send(...together)
    await scene.clock.advance(5_000)
    scene.expect(await scene.drain()).toEqual(together.map(({ id }) => id))
  },
  async 'a retry keeps its place, counts, and tells what was planned'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'), message('free'))
    const first = await scene.claim('billing', 'p1', 1)
    const plannedAt = scene.clock.now() + 2_000
    await scene.defer(first, { to: 'retry', delayMs: 2_000 })
    scene.expect(await scene.stateOf('k1')).toBe('retry')
    scene.expect((await scene.store.reads.trace('k1'))[0]?.dueAt).toBe(plannedAt)
    scene.expect(await scene.drain()).toEqual(['free'])
    await scene.clock.advance(2_000)
    const again = await scene.claim()
    const [head] = again.deliveries
    scene.expect(head).toMatchObject({ id: 'k1', attempt: 2, plannedAt, held: true })
    await scene.finish(again, 'done', head ? [head] : [])
    await scene.defer(again, { to: 'released' }, again.deliveries.slice(1))
    scene.expect(await scene.drain()).toEqual(['k2'])
    scene.expect(await scene.counters('billing')).toMatchObject({ retried: 1, done: 3 })
  },
  async 'a retry without a delay runs again at once'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.defer(await scene.claim('billing', 'p1', 1), { to: 'retry', delayMs: 0 })
    scene.expect((await scene.claim()).deliveries).toMatchObject([{ id: 'k1', attempt: 2 }, { id: 'k2' }])
  },
  async 'a delay of a fraction of a millisecond, as jitter gives, is legal'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'), message('m2', { delayMs: 12.75 }))
    await scene.defer(await scene.claim('billing', 'p1', 1), { to: 'retry', delayMs: 345.678 })
    await scene.clock.advance(1_000)
    scene.expect((await scene.drain()).sort()).toEqual(['m1', 'm2'])
  },
}

export const history: Tests<Scene> = {
  async 'a first success stands in the identity alone'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const acceptedAt = scene.clock.now()
    const claim = await scene.claim()
    scene.expect(await scene.stateOf('m1')).toBe('in progress')
    await scene.finish(claim)
    const finished = { state: 'done', waiting: null, acceptedAt, finishedAt: scene.clock.now(), history: [] }
    scene.expect(await scene.store.reads.trace('m1')).toMatchObject([{ consumer: 'billing', ...finished }])
  },
  async 'every other attempt is kept with planned and real times'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const first = await scene.claim()
    const startedAt = scene.clock.now()
    await scene.clock.advance(40)
    await scene.defer(first, { to: 'retry', delayMs: 5_000, durationMs: 40 })
    const plannedAt = scene.clock.now() + 5_000
    await scene.clock.advance(5_700)
    const second = await scene.claim()
    const startedAgainAt = scene.clock.now()
    await scene.finish(second)
    const [trace] = await scene.store.reads.trace('m1')
    scene.expect(trace?.state).toBe('done')
    scene.expect(trace?.attempts).toBe(2)
    const failed = { attempt: 1, plannedAt: null, startedAt, endedAt: startedAt + 40, outcome: 'retry', build: 'v1' }
    const done = { attempt: 2, plannedAt, startedAt: startedAgainAt, endedAt: startedAgainAt, outcome: 'done' }
    scene.expect(trace?.history).toMatchObject([{ ...failed, code: 'BROKEN', message: BROKEN.message }, done])
  },
  async 'each end has its name, at the identity and in the counters'(scene) {
    await scene.subscribe('billing')
    for (const outcome of ['done', 'duplicate', 'ignored', 'stale'] as const) {
      await scene.send(message(outcome))
      await scene.finish(await scene.claim(), outcome)
      scene.expect(await scene.stateOf(outcome)).toBe(outcome)
    }
    scene.expect(await scene.counters('billing')).toMatchObject({ done: 1, duplicate: 1, ignored: 1, stale: 1 })
    const { deliveries } = await scene.claim()
    scene.expect(deliveries).toEqual([])
  },
  async 'a message of two consumers has a trace for each, an unknown one none'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(message('m1'))
    await scene.drain('shipping')
    const traces = await scene.store.reads.trace('m1')
    scene.expect(Object.fromEntries(traces.map(trace => [trace.consumer, trace.state]))).toEqual({
      billing: 'open',
      shipping: 'done',
    })
    scene.expect(await scene.store.reads.trace('m2')).toEqual([])
  },
}
