import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Envelope } from '../../src/contracts/transport.ts'
import { defineConsumer, defineIchido, defineMessage, PermanentError, start } from '../../src/index.ts'
import { checkBooks } from '../../src/observe/books.ts'
import { routeOf } from '../../src/runtime/receiving.ts'
import { memory } from '../../src/stores/memory.ts'
import { memoryTransport } from '../../src/transports/memory.ts'

const order = defineMessage({ type: 'order.placed', schema: z.object({ n: z.number() }) })

const envelope = (n: number, change: Partial<Envelope> = {}): Envelope => ({
  ...{ id: `m${n}`, topic: 'order.placed', type: 'order.placed', version: 1, key: `k${n % 3}`, headers: {} },
  ...{ sentAt: Date.now(), dueAt: null, body: Buffer.from(JSON.stringify({ n })) },
  ...change,
})

async function createScene() {
  const store = memory()
  const broker = memoryTransport({ partitions: 2 })
  const billing = defineConsumer({
    store,
    name: 'billing',
    messages: [order],
    retry: { baseMs: 2, capMs: 8, maxAttempts: 5 },
    handle({ message, tx, attempt }) {
      const { n } = message.data
      if (n % 10 === 4 && attempt === 1) throw new Error('once')
      if (n === 999) throw new PermanentError('never')
      tx.run('insert into effect (n) values (?)', n)
    },
  })
  const options = { store, consumers: [billing], transports: { broker }, routes: { 'order.*': 'broker' }, pollMs: 20 }
  const ichido = await start(defineIchido({ ...options, leaseMs: 300, beatMs: 50 }))
  await ichido.transaction(({ tx }) => {
    tx.run('create table effect (id integer primary key, n integer)')
  })
  const effects = () =>
    store.transaction(session =>
      session
        .lease('')
        .tx.all<{ n: number }>('select n from effect order by id')
        .map(row => row.n),
    )
  return {
    ...{ store, broker, ichido, effects },
    dead: async () => (await store.reads.deadLetters({ limit: 10 })).letters,
    books: async () => checkBooks(await store.reads.ledger()).lines.filter(line => !line.balanced),
    [Symbol.asyncDispose]: () => ichido.stop(),
  }
}

const numbers = Array.from({ length: 60 }, (_, n) => n)
const byKey = (all: readonly number[], key: number) => all.filter(n => n % 3 === key)

describe('copies from a transport', () => {
  test('are done once and in the order of their keys, through failures, lost acks and changes of owner', async () => {
    await using scene = await createScene()
    scene.broker.faults.loseNextAcks(7)
    await scene.broker.publish(numbers.slice(0, 30).map(n => envelope(n)))
    await expect.poll(async () => (await scene.effects()).length).toBeGreaterThan(5)
    scene.broker.faults.moveOwnership('order.placed', 'billing')
    await scene.broker.publish(numbers.slice(30).map(n => envelope(n)))
    await expect.poll(async () => (await scene.effects()).length, { timeout: 10_000 }).toBe(60)
    const done = await scene.effects()
    for (const key of [0, 1, 2]) expect(byKey(done, key)).toEqual(byKey(numbers, key))
    await scene.ichido.idle()
    expect(await scene.books()).toEqual([])
  })

  test('that cannot be read, identified or done become dead letters, and the others go on', async () => {
    await using scene = await createScene()
    await scene.broker.publish([
      envelope(1),
      envelope(2, { id: null }),
      envelope(3, { body: Buffer.from([0xff, 0xfe, 0x00]) }),
      envelope(999, { key: null }),
      envelope(1),
      envelope(1, { body: Buffer.from('{"n":77}') }),
      envelope(5),
    ])
    await expect
      .poll(async () => (await scene.dead()).map(letter => letter.code).sort())
      .toEqual(['ID_REUSED', 'INVALID_ID', 'PERMANENT', 'UNDECODABLE'])
    await expect.poll(async () => (await scene.effects()).sort()).toEqual([1, 5])
    const unreadable = (await scene.dead()).find(letter => letter.code === 'UNDECODABLE')
    expect(Buffer.from((await scene.store.reads.payload(unreadable as never))?.body ?? []).toString('hex')).toBe(
      'fffe00',
    )
    await scene.ichido.idle()
    expect(await scene.books()).toEqual([])
  })

  test('are not sent through the store: that needs the outbox', async () => {
    await using scene = await createScene()
    await expect(scene.ichido.send(order, { n: 1 })).rejects.toMatchObject({ code: 'INVALID_CONFIG' })
  })
})

test('routes are exact or the beginning of a topic, the first one wins', () => {
  const routes = { 'order.placed': 'a', 'order.*': 'b' }
  expect(['order.placed', 'order.paid', 'orders', 'x'].map(topic => routeOf(routes, topic))).toEqual([
    'a',
    'b',
    null,
    null,
  ])
})
