import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Step } from '../../src/contracts/steps.ts'
import type { Copy, Envelope } from '../../src/contracts/transport.ts'
import { type MemoryTransport, memoryTransport } from '../../src/transports/memory.ts'
import { messages } from './orders.ts'

export interface CustodyOrder {
  readonly config: string
  readonly plan: { readonly step: Step; readonly hit: number } | null
}

export type HandedCopy = Envelope & { readonly maybeStarted: boolean; readonly handle: number }

export interface CustodyFindings {
  readonly faults: readonly unknown[]
  readonly effects: readonly string[]
  readonly dead: readonly string[]
}

export type Ask =
  | { readonly kind: 'receive'; readonly max: number }
  | { readonly kind: 'ack'; readonly handle: number }
  | { readonly kind: 'report'; readonly findings: CustodyFindings }

export interface Answer {
  readonly ask: number
  readonly copies: readonly HandedCopy[]
}

/** A broker that holds the messages of the shop. */
export async function openBroker(): Promise<MemoryTransport> {
  const broker = memoryTransport()
  await broker.publish(
    messages.map(({ type, input, options }) => {
      const body = new TextEncoder().encode(JSON.stringify(input))
      const { id, key } = options
      return { id, topic: type, type, version: 1, key, headers: {}, sentAt: Date.now(), dueAt: null, body }
    }),
  )
  return broker
}

/** One process at the broker, until it dies or has nothing more to receive. Its receiver is closed by its end, as a connection is. */
export async function workAt(
  broker: MemoryTransport,
  order: CustodyOrder,
  environment: Readonly<Record<string, string>>,
): Promise<{ end: string; findings: CustodyFindings | null; output: string }> {
  const receiver = await broker.subscribe('order.placed', 'billing')
  const child = fork(fileURLToPath(new URL('./custody-process.ts', import.meta.url)), [JSON.stringify(order)], {
    env: { ...process.env, ...environment },
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const handed: Copy[] = []
  let findings: CustodyFindings | null = null
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', chunk => (output += chunk))
  const answer = async (question: Ask): Promise<readonly HandedCopy[]> => {
    if (question.kind === 'report') findings = question.findings
    if (question.kind === 'ack') await handed[question.handle]?.ack()
    if (question.kind !== 'receive') return []
    const copies = await receiver.receive(question.max, AbortSignal.timeout(200))
    return copies.map(({ ack, renew, ...copy }) => ({ ...copy, handle: handed.push({ ...copy, ack }) - 1 }))
  }
  child.on('message', async (question: Ask & { number: number }) => {
    const copies = await answer(question)
    if (child.connected) child.send({ ask: question.number, copies } satisfies Answer, () => {})
  })
  const end = await new Promise<string>(resolve => {
    child.once('close', (code, signal) => resolve(signal ?? String(code)))
  })
  await receiver.close()
  return { end, findings, output }
}
