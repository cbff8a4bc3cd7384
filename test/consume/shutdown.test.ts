import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { ConsumerOptions } from '../../src/consume/consumer.ts'
import type { Events } from '../../src/contracts/events.ts'
import { defineConsumer, defineIchido, start } from '../../src/index.ts'
import { type SqliteTx, sqlite } from '../../src/stores/sqlite/store.ts'
import { memoryTransport } from '../../src/transports/memory.ts'
import { order } from './scene.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-shutdown-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let files = 0

type Options = Partial<ConsumerOptions<typeof order, SqliteTx, unknown>>

/** Starts, sends, waits for the first call of the handler's side, stops, and tells what the file says afterwards. */
async function stopDuring(consumer: (called: () => void) => Options, count = 1) {
  const path = join(folder, `${files++}.db`)
  const store = sqlite(path)
  const called = Promise.withResolvers<void>()
  const billing = defineConsumer({
    ...{ store, name: 'billing', messages: [order], retry: { maxAttempts: 1 }, handle() {} },
    ...consumer(called.resolve),
  })
  const ichido = await start(defineIchido({ store, consumers: [billing], shutdownMs: 80, pollMs: 20 }))
  const dead: Events['dead'][] = []
  ichido.on('dead', event => dead.push(event))
  await ichido.transaction(async ({ send }) => {
    for (let n = 0; n < count; n++) await send(order, { n }, { id: `m${n}` })
  })
  await called.promise
  await ichido.stop()
  expect(dead).toEqual([])
  await using later = await start(defineIchido({ store: sqlite(path) }))
  const traces = await Promise.all(Array.from({ length: count }, (_, n) => later.store.reads.trace(`m${n}`)))
  return traces.map(([trace]) => [trace?.waiting ?? trace?.state, trace?.attempts])
}

const never = () => new Promise<never>(() => {})

test('a prepare that does not return is given back uncharged, although it was its last attempt', async () => {
  const prepare = (called: () => void) => () => {
    called()
    return never()
  }
  expect(await stopDuring(called => ({ prepare: prepare(called) }))).toEqual([['ready', 0]])
})

test('neighbours of a prepare that does not return are given back too', async () => {
  const found = await stopDuring(
    called => ({
      prepare: ({ message }) => {
        if (message.data.n !== 1) return 'ready'
        called()
        return never()
      },
    }),
    8,
  )
  expect(found.every(([state]) => state === 'done' || state === 'ready')).toBe(true)
  expect([found[0], found[1], found[2]]).toEqual([
    ['done', 1],
    ['ready', 0],
    ['ready', 0],
  ])
  expect(found.filter(([state]) => state === 'ready').every(([, attempts]) => attempts === 0)).toBe(true)
})

test('what runs at the stop is finished, and nothing new is begun', async () => {
  const found = await stopDuring(
    called => ({
      batch: 1,
      async prepare() {
        called()
        await new Promise(resolve => setTimeout(resolve, 30))
      },
    }),
    50,
  )
  const done = found.filter(([state]) => state === 'done').length
  expect(done).toBeGreaterThan(0)
  expect(done).toBeLessThan(50)
  expect(found.filter(([state]) => state !== 'done').every(([state, n]) => state === 'ready' && n === 0)).toBe(true)
})

test('a copy from a transport whose prepare does not return is neither acked nor charged', async () => {
  const path = join(folder, `${files++}.db`)
  const store = sqlite(path)
  const broker = memoryTransport()
  const called = Promise.withResolvers<void>()
  const billing = defineConsumer({
    ...{ store, name: 'billing', messages: [order], retry: { maxAttempts: 1 }, handle() {} },
    prepare() {
      called.resolve()
      return never()
    },
  })
  const routed = { transports: { broker }, routes: { order: 'broker' } }
  const ichido = await start(defineIchido({ store, consumers: [billing], shutdownMs: 80, ...routed }))
  const body = Buffer.from('{"n":1}')
  const name = { id: 'm1', topic: 'order', type: 'order', version: 1, key: null, headers: {} }
  await broker.publish([{ ...name, sentAt: Date.now(), dueAt: null, body }])
  await called.promise
  await ichido.stop()
  const receiver = await broker.subscribe('order', 'billing')
  const copies = await receiver.receive(10, AbortSignal.timeout(1_000))
  expect(copies.map(copy => copy.id)).toEqual(['m1'])
  await receiver.close()
  await using later = await start(defineIchido({ store: sqlite(path) }))
  expect(await later.store.reads.trace('m1')).toEqual([])
})
