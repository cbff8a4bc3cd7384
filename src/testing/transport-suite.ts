import type { Copy, Envelope, Receiver, Transport } from '../contracts/transport.ts'
import { systemClock } from '../runtime/clock.ts'
import { codeOf, type Deviation, type Expect, type TestFramework, type Tests } from './test-framework.ts'

export interface TransportFixture {
  readonly transport: Transport
  /** Takes the partitions of a consumer away from their owner, without its knowing: a lost connection, a rebalance. */
  takeOwnership?(topic: string, consumer: string): Promise<void>
  close(): Promise<void>
}

export interface TransportSuiteSubject {
  readonly name: string
  create(): Promise<TransportFixture>
  /** By the name of the test. */
  readonly deviations?: Readonly<Record<string, Deviation<TransportScene>>>
}

const TOPIC = 'orders'

/** A transport, and what was opened on it. */
export class TransportScene {
  readonly fixture: TransportFixture
  readonly transport: Transport
  readonly expect: Expect
  readonly #receivers: Receiver[] = []

  constructor(fixture: TransportFixture, expect: Expect) {
    this.fixture = fixture
    this.transport = fixture.transport
    this.expect = expect
  }

  envelope(id: string, parts: Partial<Envelope> = {}): Envelope {
    const body = new TextEncoder().encode(id)
    const plain = {
      id,
      topic: TOPIC,
      type: 'order.placed',
      version: 1,
      key: 'k',
      headers: {},
      sentAt: 1_000,
      dueAt: null,
    }
    return { ...plain, body, ...parts }
  }

  publish(...ids: readonly string[]): Promise<void> {
    return this.transport.publish(ids.map(id => this.envelope(id)))
  }

  async subscribe(consumer = 'billing', topic = TOPIC): Promise<Receiver> {
    const receiver = await this.transport.subscribe(topic, consumer)
    this.#receivers.push(receiver)
    return receiver
  }

  /** Receives until `count` copies are there, or nothing more came for a while. */
  async receive(receiver: Receiver, count: number, patienceMs = 5_000): Promise<Copy[]> {
    const copies: Copy[] = []
    const until = systemClock.monotonic() + patienceMs
    while (copies.length < count) {
      const leftMs = until - systemClock.monotonic()
      if (leftMs <= 0) break
      const abort = new AbortController()
      const timer = systemClock.after(leftMs, () => abort.abort())
      copies.push(...(await receiver.receive(count - copies.length, abort.signal)))
      timer.cancel()
    }
    return copies
  }

  async close(): Promise<void> {
    for (const receiver of this.#receivers) await receiver.close()
    await this.fixture.close()
  }
}

const ids = (copies: readonly Copy[]) => copies.map(copy => copy.id)

async function settle(copies: readonly Copy[]): Promise<void> {
  for (const copy of copies) await copy.ack()
}

const carrying: Tests<TransportScene> = {
  async 'what was published arrives as it was'(scene) {
    const receiver = await scene.subscribe()
    const every = new Uint8Array(256).map((_, index) => index)
    const headers = { a: 'b', 'x-é': 'ü\u{1F600}', ...JSON.parse('{"__proto__":"c"}') }
    const sent = [
      scene.envelope('m1', { body: every, headers, version: 7, dueAt: 2_000, key: 'é\u{1F600}' }),
      scene.envelope('m2', { body: new Uint8Array(0), key: null, sentAt: null, type: null, version: null }),
    ]
    await scene.transport.publish(sent)
    const received = await scene.receive(receiver, 2)
    for (const { ack: _, renew: __, ...copy } of received) {
      const original = sent.find(envelope => envelope.id === copy.id)
      scene.expect({ ...copy, body: [...copy.body] }).toEqual({
        ...original,
        body: [...(original?.body ?? [])],
        maybeStarted: false,
      })
    }
    scene.expect(received.length).toBe(2)
  },
  async 'a body above the limit is refused, and nothing of the call is published'(scene) {
    const { largestBodyBytes } = scene.transport.facts
    if (largestBodyBytes > 64 * 1024 * 1024) return
    const receiver = await scene.subscribe()
    const large = scene.envelope('large', { body: new Uint8Array(largestBodyBytes + 1) })
    const code = await codeOf(() => scene.transport.publish([scene.envelope('m1'), large]))
    scene.expect(code).toBe('MESSAGE_TOO_LARGE')
    const fits = scene.envelope('fits', { body: new Uint8Array(largestBodyBytes) })
    await scene.transport.publish([fits])
    scene.expect(ids(await scene.receive(receiver, 1))).toEqual(['fits'])
  },
  async 'every consumer gets every message, and processes of one consumer share them'(scene) {
    const [billing, shipping] = [await scene.subscribe('billing'), await scene.subscribe('shipping')]
    await scene.publish('m1', 'm2')
    scene.expect(ids(await scene.receive(billing, 2))).toEqual(['m1', 'm2'])
    scene.expect(ids(await scene.receive(shipping, 2))).toEqual(['m1', 'm2'])
    const second = await scene.subscribe('billing')
    scene.expect(ids(await scene.receive(second, 1, 200))).toEqual([])
  },
  async 'topics are apart'(scene) {
    const orders = await scene.subscribe('billing')
    const news = await scene.subscribe('billing', 'news')
    await scene.transport.publish([scene.envelope('n1', { topic: 'news' }), scene.envelope('m1')])
    scene.expect(ids(await scene.receive(news, 1))).toEqual(['n1'])
    scene.expect(ids(await scene.receive(orders, 1))).toEqual(['m1'])
  },
  async 'the same id twice is two copies: de-duplication is not the transport’s'(scene) {
    const receiver = await scene.subscribe()
    await scene.publish('m1', 'm1')
    scene.expect(ids(await scene.receive(receiver, 2))).toEqual(['m1', 'm1'])
  },
  async 'a receiver that waits is woken by a message, and freed by its signal'(scene) {
    const receiver = await scene.subscribe()
    const abort = new AbortController()
    const waiting = receiver.receive(5, abort.signal)
    await scene.publish('m1')
    const copies = await waiting
    scene.expect(ids(copies)).toEqual(['m1'])
    await settle(copies)
    const idle = receiver.receive(5, abort.signal)
    abort.abort()
    scene.expect(await idle).toEqual([])
    scene.expect(await receiver.receive(5, abort.signal)).toEqual([])
  },
  async 'never more than was asked for'(scene) {
    const receiver = await scene.subscribe()
    await scene.publish('m1', 'm2', 'm3')
    const copies = await receiver.receive(2, new AbortController().signal)
    scene.expect(copies.length).toBeLessThanOrEqual(2)
  },
}

const settling: Tests<TransportScene> = {
  async 'acked copies do not come again, unacked ones do, first ones first'(scene) {
    if (scene.transport.facts.order !== 'contiguous') return
    const first = await scene.subscribe()
    await scene.publish('m1', 'm2', 'm3', 'm4')
    const copies = await scene.receive(first, 3)
    await copies[0]?.ack()
    await first.close()
    const second = await scene.subscribe()
    const again = await scene.receive(second, 3)
    scene.expect(ids(again)).toEqual(['m2', 'm3', 'm4'])
    scene.expect(again.map(copy => copy.maybeStarted)).toEqual([true, true, false])
  },
  async 'an ack out of order does not settle what stands before it'(scene) {
    const first = await scene.subscribe()
    await scene.publish('m1', 'm2')
    const copies = await scene.receive(first, 2)
    await copies.find(copy => copy.id === 'm2')?.ack()
    await first.close()
    const again = await scene.receive(await scene.subscribe(), 1)
    scene.expect(ids(again)).toEqual(['m1'])
  },
  async 'an ack counts once, however often it is made'(scene) {
    const first = await scene.subscribe()
    await scene.publish('m1', 'm2')
    const copies = await scene.receive(first, 2)
    for (let times = 0; times < 3; times++) await copies.find(copy => copy.id === 'm1')?.ack()
    await first.close()
    scene.expect(ids(await scene.receive(await scene.subscribe(), 1))).toEqual(['m2'])
  },
  async 'what waits behind is not handed to a second receiver while the first has unsettled copies of its key'(scene) {
    if (scene.transport.facts.order !== 'contiguous') return
    const [first, second] = [await scene.subscribe(), await scene.subscribe()]
    await scene.publish('m1', 'm2', 'm3')
    const owners = await Promise.all([scene.receive(first, 1, 500), scene.receive(second, 1, 500)])
    scene.expect(owners.map(copies => copies.length).sort()).toEqual([0, 1])
    scene.expect(owners.flatMap(ids)).toEqual(['m1'])
  },
  async 'an ack of an owner that lost the copy is dropped'(scene) {
    const { takeOwnership } = scene.fixture
    if (!takeOwnership) return
    const zombie = await scene.subscribe()
    await scene.publish('m1', 'm2')
    const old = await scene.receive(zombie, 2)
    const owner = await scene.subscribe()
    await takeOwnership(TOPIC, 'billing')
    await settle(old)
    const copies = await scene.receive(owner, 2)
    scene.expect(ids(copies)).toEqual(['m1', 'm2'])
    scene.expect(copies.every(copy => copy.maybeStarted)).toBe(true)
    await settle(copies)
    await owner.close()
    await zombie.close()
    scene.expect(ids(await scene.receive(await scene.subscribe(), 1, 200))).toEqual([])
  },
  async 'a renewed copy stays with its receiver'(scene) {
    const receiver = await scene.subscribe()
    await scene.publish('m1')
    const [copy] = await scene.receive(receiver, 1)
    await copy?.renew?.(1_000)
    await copy?.ack()
    await receiver.close()
    scene.expect(ids(await scene.receive(await scene.subscribe(), 1, 200))).toEqual([])
  },
  async 'many messages of many keys keep the order of each key over a change of owner'(scene) {
    if (scene.transport.facts.order !== 'contiguous') return
    const messages = Array.from({ length: 300 }, (_, index) => scene.envelope(`${index}`, { key: `k${index % 7}` }))
    await scene.transport.publish(messages)
    const settled: Copy[] = []
    for (let left = 300; left > 0; left = 300 - settled.length) {
      const receiver = await scene.subscribe()
      const copies = await scene.receive(receiver, Math.min(40, left))
      for (const copy of copies.slice(0, 25)) {
        await copy.ack()
        settled.push(copy)
      }
      await receiver.close()
    }
    scene.expect(settled.length).toBe(300)
    for (let key = 0; key < 7; key++) {
      const own = settled.filter(copy => copy.key === `k${key}`).map(copy => Number(copy.id))
      scene.expect(own).toEqual([...own].sort((a, b) => a - b))
    }
  },
  async 'a closed transport says so'(scene) {
    await scene.transport.close()
    scene.expect(await codeOf(() => scene.publish('m1'))).toBe('CLOSED')
    scene.expect(await codeOf(() => scene.transport.subscribe(TOPIC, 'billing'))).toBe('CLOSED')
  },
}

/** The obligations of the contract `transport` as tests, each on a fresh broker or a fresh corner of one. */
export function transportSuite(subject: TransportSuiteSubject, { describe, it, expect }: TestFramework): void {
  describe(`the transport contract on ${subject.name}`, () => {
    const tests = { ...carrying, ...settling }
    for (const [name, test] of Object.entries(tests)) {
      const deviation = subject.deviations?.[name]
      const title = deviation ? `${name} (deviates: ${deviation.reason})` : name
      it(title, async () => {
        const scene = new TransportScene(await subject.create(), expect)
        try {
          await (deviation?.instead ?? test)(scene)
        } finally {
          await scene.close()
        }
      })
    }
    it('every declared deviation names a test', async () => {
      expect(Object.keys(subject.deviations ?? {}).filter(name => !(name in tests))).toEqual([])
    })
  })
}
