/** npm run bench: the SQLite store against the same SQL by hand, in one run, on files with full synchronisation. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { defineConsumer, defineIchido, defineMessage, type Ichido, start } from '../src/index.ts'
import { sqlite } from '../src/stores/sqlite/store.ts'
import { measure, type Subject } from './measure.ts'
import { byHand, rawInserts } from './sqlite-by-hand.ts'

const order = defineMessage({
  type: 'order.placed',
  schema: z.object({ orderId: z.string(), amount: z.number(), note: z.string() }),
})
const quiet = { debug() {}, info() {}, warn() {}, error() {} }

async function inFolder<T>(work: (path: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'ichido-bench-'))
  try {
    return await work(join(folder, 'bench.db'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function createConfig(path: string, batch: number, onDone: () => void) {
  const store = sqlite(path)
  const billing = defineConsumer({
    store,
    name: 'billing',
    messages: [order],
    batch,
    handle({ message, tx }) {
      tx.run('insert into business (id, amount) values (?, ?)', message.data.orderId, message.data.amount)
      onDone()
    },
  })
  return defineIchido({ store, consumers: [billing], log: quiet })
}

async function sendAll(ichido: Ichido, messages: number, keyOf: (n: number) => string | null): Promise<number> {
  const began = performance.now()
  let next = 0
  const lane = async () => {
    while (next < messages) {
      const n = next++
      await ichido.send(order, { orderId: `o${n}`, amount: n, note: 'x'.repeat(150) }, { key: keyOf(n) })
    }
  }
  await Promise.all(Array.from({ length: 256 }, lane))
  return messages / ((performance.now() - began) / 1_000)
}

/** Loads the messages while nobody consumes, then measures how fast they are worked off. */
function drain(messages: number, batch: number, keyOf: (n: number) => string | null): Promise<number> {
  return inFolder(async path => {
    const registering = await start(createConfig(path, batch, () => {}))
    await registering.transaction(({ tx }) => void tx.run('create table business (id text, amount real)'))
    await registering.stop()
    const sending = (await start(
      createConfig(path, batch, () => {}),
      { consume: false },
    )) as unknown as Ichido
    await sendAll(sending, messages, keyOf)
    await sending.stop()
    let done = 0
    let finish: () => void = () => {}
    const finished = new Promise<void>(resolve => {
      finish = resolve
    })
    const config = createConfig(path, batch, () => {
      if (++done === messages) finish()
    })
    const began = performance.now()
    await using _ = await start(config)
    await finished
    return messages / ((performance.now() - began) / 1_000)
  })
}

function enqueue(messages: number): Promise<number> {
  return inFolder(async path => {
    const registering = await start(createConfig(path, 100, () => {}))
    await registering.stop()
    await using sending = (await start(
      createConfig(path, 100, () => {}),
      { consume: false },
    )) as unknown as Ichido
    return await sendAll(sending, messages, () => null)
  })
}

const all = 'identity, fence, durable attempts, counters, full sync'
const subjects: Subject[] = [
  {
    work: 'effectively-once, batch 100',
    subject: 'by hand',
    guarantees: 'the same SQL in transactions of 100',
    run: () => inFolder(path => byHand(path, 20_000, 100)),
  },
  {
    work: 'effectively-once, batch 100',
    subject: 'ichido',
    guarantees: all,
    run: () => drain(20_000, 100, () => null),
  },
  {
    work: 'effectively-once, 20,000 keys',
    subject: 'ichido',
    guarantees: `${all}, order by key`,
    run: () => drain(20_000, 100, n => `k${(n * 7_919) % 20_000}`),
  },
  {
    work: 'effectively-once, one hot key',
    subject: 'ichido',
    guarantees: `${all}, order by key`,
    run: () => drain(20_000, 100, () => 'hot'),
  },
  {
    work: 'effectively-once, one message per commit',
    subject: 'by hand',
    guarantees: 'one transaction per message',
    run: () => inFolder(path => byHand(path, 2_000, 1)),
  },
  {
    work: 'effectively-once, one message per commit',
    subject: 'ichido',
    guarantees: all,
    run: () => drain(2_000, 1, () => null),
  },
  {
    work: 'enqueue, 256 in flight',
    subject: 'raw inserts',
    guarantees: 'one row each, 1,000 per transaction',
    run: () => inFolder(path => rawInserts(path, 100_000)),
  },
  {
    work: 'enqueue, 256 in flight',
    subject: 'ichido',
    guarantees: 'validated, hashed, identity, fan-out, full sync',
    run: () => enqueue(30_000),
  },
]

const batch = 'effectively-once, batch 100'
await measure(subjects, {
  [batch]: batch,
  'effectively-once, 20,000 keys': batch,
  'effectively-once, one hot key': batch,
  'effectively-once, one message per commit': 'effectively-once, one message per commit',
  'enqueue, 256 in flight': 'enqueue, 256 in flight',
})
