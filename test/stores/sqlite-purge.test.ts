import { expect, test } from 'vitest'
import { hashContents } from '../../src/send/identity.ts'
import { memory } from '../../src/stores/memory.ts'
import { FakeClock } from '../../src/testing/index.ts'

test('what ends while a purge is under way stays, since the watermark does not cover it', async () => {
  const clock = new FakeClock()
  const store = memory()
  await store.open({ clock, incarnation: 'p1', build: null, onTrouble: () => {} })
  await store.migrate()
  await store.subscribe([{ consumer: 'billing', topic: 'order', types: ['order'], fingerprint: 'f' }], false)
  await store.register({ incarnation: 'p1', host: 'here', pid: 1, consumers: ['billing'], build: null })
  for (const id of ['m1', 'm2']) {
    const body = Buffer.from('{}')
    const content = { type: 'order', version: 1, key: null, body, hash: hashContents('order', 1, null, body) }
    const rest = { headers: '{}', sentAt: null, dueAt: null, delayMs: null, replaces: null }
    await store.transaction(session => session.deliveries.accept([{ id, topic: 'order', ...content, ...rest }]))
    const claim = await store.claim({ consumer: 'billing', owner: 'p1', max: 1, maxBytes: 1_000 })
    const finished = claim.deliveries.map(delivery => ({ delivery, outcome: 'done' as const, durationMs: 0 }))
    await store.transaction(session => session.deliveries.finish(finished, claim.epoch))
    clock.jump(1)
  }
  clock.jump(9_999)
  // m1 ended 10,001 ms ago, m2 exactly 10,000.
  const purging = store.maintenance.purge('billing', 10_000, 100)
  await store.transaction(() => clock.jump(500))
  expect(await purging).toBe(1)
  expect((await store.reads.trace('m2'))[0]?.state).toBe('done')
  expect(await store.maintenance.purge('billing', 10_000, 100)).toBe(1)
  expect(await store.reads.trace('m2')).toEqual([])
  await store.close()
})
