import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { SendOptions } from '../contracts/message.ts'
import { type Step, storeSteps } from '../contracts/steps.ts'
import type { Books } from '../observe/books.ts'
import { systemClock } from '../runtime/clock.ts'

export interface CrashMessage {
  /** A type that the configuration knows. */
  readonly type: string
  readonly input: unknown
  /** `id` is needed: what became of the message is asked by it. */
  readonly options: Omit<SendOptions, 'at' | 'id'> & { readonly id: string }
}

/** One life and death: a process that is killed at the `hit`-th time that it stands at `step`. */
export interface CrashPlan {
  readonly step: Step
  readonly hit: number
}

export interface CrashOptions {
  /**
   * A module with the configuration as its default export (`defineIchido`). Its optional export `effects(tx)` tells the ids of the messages
   * whose effect is in the database, one entry for each effect; it may throw when the data are wrong in another way.
   */
  readonly config: URL
  readonly messages: readonly CrashMessage[]
  /** First, second, … up to this hit of each step. Default 3. */
  readonly hits?: number
  /** Default: all that a message of the store's queue passes. */
  readonly steps?: readonly Step[]
  /** Environment of the processes of one run; it must lead the configuration to a database of that run's own. */
  readonly environment: (
    plan: CrashPlan,
  ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>
  /** Longest life of a process. Default 60 s. */
  readonly timeoutMs?: number
}

export interface CrashRun extends CrashPlan {
  /** False when the step is not reached that often; then nothing was tried. */
  readonly killed: boolean
  /** After a second process has recovered everything. */
  readonly books: Books
  readonly effects: number
  /** How many deliveries ended, or wait, in each way. */
  readonly states: Readonly<Record<string, number>>
  /** What must not be: losses, doubles, strays, books that do not balance. Empty when the handlers survived. */
  readonly faults: readonly string[]
}

/** What the second process found. */
export interface CrashFindings {
  readonly books: Books
  readonly effects: readonly string[] | null
  readonly states: readonly { readonly id: string; readonly state: string }[]
  readonly fault: string | null
}

export interface CrashOrder {
  readonly config: string
  /** Null: recover, and tell. */
  readonly plan: CrashPlan | null
  readonly messages: readonly CrashMessage[]
}

/**
 * Kills a real process at every step boundary of a message's life, at the first, second and third time that it gets there, lets another
 * process recover, and compares the books, the effects and the fate of each message.
 */
export async function crashEverywhere(options: CrashOptions): Promise<CrashRun[]> {
  const runs: CrashRun[] = []
  for (const step of options.steps ?? storeSteps) {
    for (let hit = 1; hit <= (options.hits ?? 3); hit++) runs.push(await crashOnce(options, { step, hit }))
  }
  return runs
}

async function crashOnce(options: CrashOptions, plan: CrashPlan): Promise<CrashRun> {
  const environment = await options.environment(plan)
  const { config, messages } = options
  const order = { config: config.href, messages }
  const first = await live({ ...order, plan }, environment, options.timeoutMs)
  const second = await live({ ...order, plan: null }, environment, options.timeoutMs)
  const findings = second.findings
  if (!findings) throw new Error(`The process that should recover ended with ${second.end}:\n${second.output}`)
  const killed = first.end === 'SIGKILL'
  const faults = judge(messages, findings)
  if (!killed && first.end !== '0') faults.push(`the process ended with ${first.end}: ${first.output}`)
  const states: Record<string, number> = {}
  for (const { state } of findings.states) states[state] = (states[state] ?? 0) + 1
  return { ...plan, killed, books: findings.books, effects: findings.effects?.length ?? 0, states, faults }
}

function judge(messages: readonly CrashMessage[], { books, effects, states, fault }: CrashFindings): string[] {
  const faults = books.lines
    .filter(line => !line.balanced)
    .map(line => `${line.consumer}: ${line.rule}: expected ${line.expected}, found ${line.found}`)
  if (fault !== null) faults.push(fault)
  for (const { options } of messages) {
    const own = states.filter(entry => entry.id === options.id).map(entry => entry.state)
    if (own.length === 0) faults.push(`${options.id} is lost`)
    const open = own.filter(state => ['ready', 'in progress', 'retry', 'behind', 'suspect'].includes(state))
    const isHeld = states.some(entry => entry.state === 'dead')
    if (open.length > 0 && !(isHeld && open.every(state => state === 'behind'))) {
      faults.push(`${options.id} is stranded: ${open.join(', ')}`)
    }
    if (!effects) continue
    const count = effects.filter(id => id === options.id).length
    const done = own.filter(state => state === 'done').length
    if (count !== done) faults.push(`${options.id} has ${count} effects, and ${done} of its deliveries are done`)
  }
  return faults
}

interface Life {
  /** The exit code or the signal. */
  readonly end: string
  readonly findings: CrashFindings | null
  readonly output: string
}

// The sources run as they are, and the build beside them is JavaScript.
const program = new URL(import.meta.url.endsWith('.ts') ? './crash-process.ts' : './crash-process.js', import.meta.url)

async function live(
  order: CrashOrder,
  environment: Readonly<Record<string, string>>,
  timeoutMs = 60_000,
): Promise<Life> {
  const child = fork(fileURLToPath(program), [JSON.stringify(order)], {
    env: { ...process.env, ...environment },
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  let findings: CrashFindings | null = null
  child.on('message', message => {
    findings = message as CrashFindings
  })
  const output = collect(child)
  const deadline = systemClock.after(timeoutMs, () => child.kill('SIGTERM'))
  const end = await new Promise<string>(resolve => {
    child.once('close', (code, signal) => resolve(signal ?? String(code)))
  })
  deadline.cancel()
  return { end, findings, output: output.join('').slice(-4_000) }
}

function collect(child: ChildProcess): string[] {
  const chunks: string[] = []
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', chunk => chunks.push(String(chunk)))
  return chunks
}
