import type { Step } from '../contracts/steps.ts'
import type { SqlTx } from '../contracts/store.ts'
import { checkBooks } from '../observe/books.ts'
import type { IchidoConfig } from '../runtime/config.ts'
import { subscriptionsOf } from '../runtime/consumers.ts'
import { start } from '../runtime/start.ts'
import type { CrashFindings, CrashMessage, CrashOrder, CrashPlan } from './crash.ts'

// The program of the processes that `crashEverywhere` starts: one that sends, works and is killed, then one that recovers and tells.

interface CrashModule {
  readonly default: IchidoConfig
  readonly effects?: (tx: SqlTx) => readonly string[] | Promise<readonly string[]>
}

/** Short leases: the dead are found within a second. */
function hurried(config: IchidoConfig): IchidoConfig {
  return { ...config, options: { ...config.options, leaseMs: 1_000, beatMs: 100, pollMs: 50 } }
}

async function sendAll(config: IchidoConfig, messages: readonly CrashMessage[]): Promise<void> {
  await using ichido = await start(config, { consume: false })
  await ichido.store.subscribe(config.consumers.flatMap(subscriptionsOf), false)
  for (const { type, input, options } of messages) {
    const definition = config.messages.find(message => message.type === type)
    if (!definition) throw new Error(`The configuration knows no message of type ${type}.`)
    await ichido.send(definition, input, options)
  }
}

async function workUntilKilled(config: IchidoConfig, plan: CrashPlan): Promise<void> {
  let hits = 0
  const onStep = (step: Step) => {
    if (step === plan.step && ++hits === plan.hit) process.kill(process.pid, 'SIGKILL')
  }
  await using ichido = await start(config, { onStep })
  await ichido.idle()
}

async function recover({ default: config, effects }: CrashModule, messages: readonly CrashMessage[]): Promise<void> {
  await using ichido = await start(hurried(config))
  await ichido.idle()
  const { store } = ichido
  const states: { id: string; state: string }[] = []
  for (const { options } of messages) {
    for (const { id, state, waiting } of await store.reads.trace(options.id))
      states.push({ id, state: waiting ?? state })
  }
  let found: readonly string[] | null = null
  let fault: string | null = null
  try {
    if (effects) found = await store.transaction(async session => effects(session.lease('').tx))
  } catch (error) {
    fault = String(error)
  }
  const books = checkBooks(await store.reads.ledger(), await store.reads.sweep())
  const findings: CrashFindings = { books, effects: found, states, fault }
  await new Promise<void>(resolve => process.send?.(findings, () => resolve()))
}

const order = JSON.parse(process.argv[2] ?? '{}') as CrashOrder
const module = (await import(order.config)) as CrashModule
if (order.plan) {
  await sendAll(module.default, order.messages)
  await workUntilKilled(hurried(module.default), order.plan)
} else {
  await recover(module, order.messages)
}
process.exit(0)
