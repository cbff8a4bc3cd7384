import { runCopies } from '../../src/consume/copies.ts'
import type { RunningConsumer } from '../../src/consume/running.ts'
import { defaults } from '../../src/contracts/limits.ts'
import type { Step } from '../../src/contracts/steps.ts'
import type { SqlTx } from '../../src/contracts/store.ts'
import type { Copy } from '../../src/contracts/transport.ts'
import { checkBooks } from '../../src/observe/books.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import type { IchidoConfig } from '../../src/runtime/config.ts'
import { createLog } from '../../src/runtime/log.ts'
import { start } from '../../src/runtime/start.ts'
import { encodeMessage } from '../../src/send/encode.ts'
import { findBadName, hashContents } from '../../src/send/identity.ts'
import type { Answer, Ask, CustodyOrder, HandedCopy } from './custody-broker.ts'

// A worker whose messages come from a broker in the parent process, so that the broker outlives it.

const order = JSON.parse(process.argv[2] ?? '{}') as CustodyOrder
const module = (await import(order.config)) as {
  default: IchidoConfig
  effects(tx: SqlTx): Promise<string[]>
}
const config = { ...module.default, options: { ...module.default.options, leaseMs: 1_000, beatMs: 100, pollMs: 50 } }

const waiting = new Map<number, (answer: Answer) => void>()
let asked = 0
process.on('message', (answer: Answer) => waiting.get(answer.ask)?.(answer))

function ask(question: Ask): Promise<Answer> {
  const number = ++asked
  return new Promise(resolve => {
    waiting.set(number, resolve)
    process.send?.({ ...question, number })
  })
}

function copyOf({ handle, ...envelope }: HandedCopy): Copy {
  return { ...envelope, ack: async () => void (await ask({ kind: 'ack', handle })) }
}

let hits = 0
const onStep = (step: Step) => {
  if (order.plan && step === order.plan.step && ++hits === order.plan.hit) process.kill(process.pid, 'SIGKILL')
}

await using ichido = await start(config, { onStep })
const [consumer] = config.consumers
if (!consumer) throw new Error('the shop has a consumer')
const running: RunningConsumer = {
  consumer,
  store: ichido.store as never,
  clock: systemClock,
  log: createLog(
    () => {},
    () => 0,
  ),
  definitions: new Map(config.messages.map(message => [message.type, message])),
  failures: {
    retry: { ...defaults.retry, ...consumer.retry },
    onDead: consumer.onDead,
    classify: consumer.classify,
    random: () => systemClock.random(),
  },
  timeoutMs: defaults.timeoutMs,
  build: null,
  signal: new AbortController().signal,
  encode: (definition, input, options) => encodeMessage(definition, input, options, () => 'made-here'),
  emit: () => {},
  onStep,
}
const origin = {
  consumer: consumer.name,
  topic: 'order.placed',
  onDead: consumer.onDead,
  keyed: true,
  marginMs: 0,
  acceptUnknownAge: false,
}
for (;;) {
  const { copies } = await ask({ kind: 'receive', max: 1 })
  if (copies.length === 0) break
  await runCopies(running, origin, copies.map(copyOf), { hash: hashContents, findBadName })
}
await ichido.idle()
const { store } = ichido
const books = checkBooks(await store.reads.ledger(), await store.reads.sweep())
const effects = await store.transaction(async session => module.effects(session.lease('').tx))
const dead = (await store.reads.deadLetters({ limit: 100 })).letters.map(letter => letter.id)
await ask({ kind: 'report', findings: { faults: books.lines.filter(line => !line.balanced), effects, dead } })
await ichido.stop()
process.exit(0)
