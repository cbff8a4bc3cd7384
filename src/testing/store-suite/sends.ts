import type { OutgoingMessage } from '../../contracts/message.ts'
import { codeOf, type Tests } from '../test-framework.ts'
import { bytes, hashOf, idsOf, message, numbered, ORDERS, type Scene } from './scene.ts'

/** The same id with other contents. */
export function altered(id: string, parts: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return message(id, { body: bytes('{"other":true}'), ...parts })
}

export const sends: Tests<Scene> = {
  async 'every consumer of the topic gets its copy, and no other'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.subscribe('mailing', 'letters')
    const accepted = await scene.send(message('m1'))
    scene.expect(accepted).toEqual([{ id: 'm1', duplicate: false, kept: false, fanOut: 2 }])
    scene.expect(await scene.drain('billing')).toEqual(['m1'])
    scene.expect(await scene.drain('shipping')).toEqual(['m1'])
    scene.expect(await scene.drain('mailing')).toEqual([])
    scene.expect(await scene.counters('')).toMatchObject({ sent: 1, resent: 0, fannedOut: 2, kept: 0 })
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 1, custody: 0, done: 1 })
  },
  async 'a claim hands out what was sent, unchanged'(scene) {
    await scene.subscribe('billing')
    const sent = message('m1', { version: 3, key: 'k', headers: '{"a":"b","__proto__":"c"}', sentAt: 1_234 })
    await scene.send(sent)
    const [delivery] = (await scene.claim()).deliveries
    const { id, topic, type, version, key, headers } = sent
    scene.expect(delivery).toMatchObject({ consumer: 'billing', id, topic, type, version, key, headers, sentAt: 1_234 })
    scene.expect(Buffer.from(delivery?.body ?? []).equals(Buffer.from(sent.body))).toBe(true)
    const fresh = { attempt: 1, deaths: 0, suspect: false, held: false, replaces: null, plannedAt: null }
    scene.expect(delivery).toMatchObject({ ...fresh, claimedAt: scene.clock.now() })
  },
  async 'deliveries come in the order in which they were sent'(scene) {
    await scene.subscribe('billing')
    const messages = numbered('m', 250)
    await scene.send(...messages.slice(0, 120))
    await scene.send(...messages.slice(120))
    scene.expect(await scene.drain('billing', 'p1', 7)).toEqual(messages.map(({ id }) => id))
  },
  async 'the time of the send is the store clock, unless the message brings one'(scene) {
    await scene.subscribe('billing')
    const now = await scene.store.now()
    scene.expect(now).toBe(scene.clock.now())
    await scene.send(message('m1'), message('m2', { sentAt: 77 }))
    const { deliveries } = await scene.claim()
    scene.expect(deliveries.map(delivery => delivery.sentAt)).toEqual([now, 77])
  },
  async 'nothing sent is nothing written'(scene) {
    await scene.subscribe('billing')
    scene.expect(await scene.send()).toEqual([])
    scene.expect(await scene.drain()).toEqual([])
  },
  async 'a type that the consumer did not ask for is delivered all the same, for it to ignore'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1', { type: 'order.renamed' }))
    const claim = await scene.claim()
    scene.expect(claim.deliveries[0]?.type).toBe('order.renamed')
    await scene.finish(claim, 'ignored')
    scene.expect(await scene.counters('billing')).toMatchObject({ ignored: 1, done: 0 })
  },
  async 'what a transaction sent is gone when it rolls back'(scene) {
    await scene.subscribe('billing')
    const code = await codeOf(() =>
      scene.transaction(async session => {
        await session.deliveries.accept([message('m1')])
        throw new Error('no')
      }),
    )
    scene.expect(code).toBe('Error: no')
    scene.expect(await scene.drain()).toEqual([])
    scene.expect(await scene.send(message('m1'))).toMatchObject([{ duplicate: false, fanOut: 1 }])
  },
}

export const duplicates: Tests<Scene> = {
  async 'the same id with the same contents is a duplicate, while it waits and when it is done'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    scene.expect(await scene.send(message('m1'))).toEqual([{ id: 'm1', duplicate: true, kept: false, fanOut: 0 }])
    scene.expect(await scene.drain()).toEqual(['m1'])
    scene.expect(await scene.send(message('m1'))).toMatchObject([{ duplicate: true }])
    scene.expect(await scene.drain()).toEqual([])
    scene.expect(await scene.counters('')).toMatchObject({ sent: 1, resent: 2, fannedOut: 1 })
  },
  async 'twice in one call is once'(scene) {
    await scene.subscribe('billing')
    const accepted = await scene.send(message('m1'), message('m2'), message('m1'))
    scene.expect(accepted.map(acceptance => acceptance.duplicate)).toEqual([false, false, true])
    scene.expect(await scene.drain()).toEqual(['m1', 'm2'])
  },
  async 'the id sent again while it is dead is a duplicate'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.kill(['m1'])
    scene.expect(await scene.send(message('m1'))).toMatchObject([{ duplicate: true }])
    scene.expect((await scene.letters()).map(letter => letter.id)).toEqual(['m1'])
  },
  async 'other contents under a known id are refused, and nothing of the call is written'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    scene.expect(await codeOf(() => scene.send(message('m2'), altered('m1'), message('m3')))).toBe('ID_REUSED')
    scene.expect(await scene.drain()).toEqual(['m1'])
    scene.expect(await codeOf(() => scene.send(altered('m1')))).toBe('ID_REUSED')
    scene.expect(await scene.counters('')).toMatchObject({ sent: 1, resent: 0, fannedOut: 1 })
  },
  async 'other contents under one id in one call are refused'(scene) {
    await scene.subscribe('billing')
    scene.expect(await codeOf(() => scene.send(message('m1'), altered('m1')))).toBe('ID_REUSED')
    scene.expect(await scene.drain()).toEqual([])
  },
  async 'a refused send writes nothing in a transaction that goes on and commits'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.transaction(async session => {
      await session.deliveries.accept([message('before')])
      scene.expect(await codeOf(() => session.deliveries.accept([message('with'), altered('m1')]))).toBe('ID_REUSED')
      await session.deliveries.accept([message('after')])
    })
    scene.expect(await scene.drain()).toEqual(['m1', 'before', 'after'])
  },
  async 'a consumer that came later gets the copy that it lacks'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.subscribe('shipping')
    scene.expect(await scene.send(message('m1'))).toMatchObject([{ duplicate: false, fanOut: 1 }])
    scene.expect([await scene.drain('billing'), await scene.drain('shipping')]).toEqual([['m1'], ['m1']])
  },
  async 'a reused id is refused although only a later consumer lacks it'(scene) {
    await scene.subscribe('zebra')
    await scene.send(message('m1'))
    await scene.subscribe('aardvark')
    scene.expect(await codeOf(() => scene.send(altered('m1')))).toBe('ID_REUSED')
    scene.expect(await scene.drain('aardvark')).toEqual([])
  },
  async 'the same id on two topics is two messages'(scene) {
    await scene.subscribe('billing', 'orders')
    await scene.subscribe('billing', 'refunds')
    const refund = message('o1', { topic: 'refunds', type: 'refund.asked' })
    scene.expect(await scene.send(message('o1'), refund)).toMatchObject([{ fanOut: 1 }, { fanOut: 1 }])
    const claim = await scene.claim()
    scene.expect(claim.deliveries.map(delivery => delivery.topic)).toEqual([ORDERS, 'refunds'])
    await scene.finish(claim)
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 2, done: 2 })
  },
  async 'the hash decides, also where the bodies are equal'(scene) {
    await scene.subscribe('billing')
    const { body } = message('m1')
    await scene.send(message('m1'))
    const rekeyed = message('m1', { key: 'k', hash: hashOf('order.placed', 1, 'k', body) })
    scene.expect(await codeOf(() => scene.send(rekeyed))).toBe('ID_REUSED')
  },
  async 'two messages that wait for nobody are told apart by their ids alone'(scene) {
    await scene.subscribe('billing')
    const same = { body: bytes('{}'), hash: hashOf('order.placed', 1, null, bytes('{}')) }
    await scene.send(message('a', same), message('b', same))
    scene.expect(idsOf(await scene.claim())).toEqual(['a', 'b'])
  },
}
