/**
 * Several processes produce and consume while they are killed, paused past their lease, and while their database restarts. Then a checker
 * that knows nothing of ichido compares what was confirmed with what was done.
 *
 *   npm run chaos -- --store sqlite|postgres --messages 100000 [--seed 1] [--processes 3] [--json]
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { judge } from './checker.ts'
import { collect, countLines, type Database, openPostgres, openSqlite } from './database.ts'
import { type ChaosSettings, leaseMs, seeded } from './settings.ts'

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'sqlite' },
    messages: { type: 'string', default: '5000' },
    seed: { type: 'string', default: '1' },
    processes: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
})
const messages = Number(values.messages)
const seed = Number(values.seed)
const processes = Number(values.processes)
const random = seeded(seed)
const between = (from: number, to: number) => from + random() * (to - from)
const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
const say = (text: string) => void process.stderr.write(`${text}\n`)

/** What must have happened, or the run proves nothing: for 100,000 messages 50 kills, 10 of them inside a transaction, and 10 pauses. */
const share = Math.min(1, messages / 100_000)
const least = {
  kills: Math.max(3, Math.round(50 * share)),
  killsInsideTransaction: Math.max(1, Math.round(10 * share)),
  pauses: Math.max(1, Math.round(10 * share)),
}

interface Life {
  child: ChildProcess
  produced: boolean
  paused: boolean
}

class Run {
  readonly #database: Database
  readonly #settings: Omit<ChaosSettings, 'producer'>
  readonly #lives: Life[] = []
  /** No faults from outside any more. Killing messages go on until they are dead. */
  #calm = false
  #stopping = false
  kills = 0
  pauses = 0
  databaseRestarts = 0
  longestRecoveryMs = 0

  constructor(database: Database, settings: Omit<ChaosSettings, 'producer'>) {
    this.#database = database
    this.#settings = settings
  }

  start(): void {
    for (let producer = 0; producer < processes; producer++) this.#lives.push(this.#give(producer))
  }

  get produced(): boolean {
    return this.#lives.every(life => life.produced)
  }

  #give(producer: number): Life {
    const env = { ...process.env, ICHIDO_CHAOS: JSON.stringify({ ...this.#settings, producer }) }
    const child = fork(fileURLToPath(new URL('./worker.ts', import.meta.url)), [], {
      env,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const life: Life = { child, produced: false, paused: false }
    child.on('message', () => {
      life.produced = true
    })
    child.on('exit', () => {
      if (this.#stopping) return
      this.kills++
      setTimeout(() => {
        if (!this.#stopping) this.#lives[producer] = this.#give(producer)
      }, 50)
    })
    return life
  }

  async killSometimes(): Promise<void> {
    while (!this.#calm) {
      await pause(between(1_000, 3_000))
      const life = this.#lives[Math.floor(random() * processes)] as Life
      if (!this.#calm && !life.paused) life.child.kill('SIGKILL')
    }
  }

  async pauseSometimes(): Promise<void> {
    while (!this.#calm) {
      await pause(between(2_000, 5_000))
      const life = this.#lives[Math.floor(random() * processes)] as Life
      if (this.#calm || life.child.exitCode !== null || life.child.signalCode !== null) continue
      life.paused = true
      life.child.kill('SIGSTOP')
      await pause(leaseMs * 1.8)
      life.child.kill('SIGCONT')
      life.paused = false
      this.pauses++
    }
  }

  async breakDatabase(): Promise<void> {
    while (!this.#calm && this.#database.restart) {
      await pause(between(5_000, 10_000))
      if (this.#calm) return
      await this.#database.terminate()
      await pause(500)
      await this.#database.restart()
      this.databaseRestarts++
    }
  }

  /** The longest time without a new effect while there was work. */
  async watch(): Promise<void> {
    let seen = -1
    let since = performance.now()
    while (!this.#stopping) {
      await pause(250)
      const rows = await this.#database.query('select count(*) as n from effect')
      const count = Number(rows[0]?.n)
      if (count !== seen || this.produced) since = performance.now()
      this.longestRecoveryMs = Math.max(this.longestRecoveryMs, performance.now() - since)
      seen = count
    }
  }

  endFaults(): void {
    this.#calm = true
    for (const { child } of this.#lives) child.kill('SIGCONT')
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all(
      this.#lives.map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const exited = once(child, 'exit')
        child.kill('SIGTERM')
        const timer = setTimeout(() => child.kill('SIGKILL'), 15_000)
        await exited
        clearTimeout(timer)
      }),
    )
  }
}

/** Nothing moves any more: what is open is dead, or waits behind something dead. */
async function untilQuiet(database: Database, longestMs: number): Promise<void> {
  const until = performance.now() + longestMs
  for (let quiet = 0; quiet < 4; ) {
    if (performance.now() > until) return
    await pause(250)
    const rows = await database.query(
      `select count(*) as n from ichido.delivery where state in ('ready', 'retry', 'suspect')`,
    )
    quiet = Number(rows[0]?.n) === 0 ? quiet + 1 : 0
  }
}

async function main(): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'ichido-chaos-'))
  const database = values.store === 'postgres' ? await openPostgres() : openSqlite(folder)
  try {
    if (values.store === 'postgres') await migrate(database.place)
    const run = new Run(database, {
      store: values.store as 'sqlite',
      place: database.place,
      folder,
      messages: Math.ceil(messages / processes),
      seed,
    })
    run.start()
    void run.killSometimes()
    void run.pauseSometimes()
    void run.breakDatabase()
    void run.watch()
    const enough = () =>
      run.kills >= least.kills &&
      run.pauses >= least.pauses &&
      countLines(`${folder}/inside.log`) >= least.killsInsideTransaction
    for (let at = performance.now(); !(run.produced && enough()) && performance.now() - at < 1_200_000; )
      await pause(100)
    run.endFaults()
    say('the faults have stopped')
    await pause(1_000)
    await untilQuiet(database, 60_000)
    await run.stop()
    return report(run, await collect(database, folder), folder)
  } finally {
    await database.close()
    if (values.keep) say(folder)
    else rmSync(folder, { recursive: true, force: true })
  }
}

/** Through the command line, as an operator would. */
async function migrate(url: string): Promise<void> {
  const bin = fileURLToPath(new URL('../../bin/ichido.js', import.meta.url))
  const child = fork(bin, ['migrate', '--store', url], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error('the migration failed')
}

function report(run: Run, evidence: Awaited<ReturnType<typeof collect>>, folder: string): boolean {
  const verdict = judge(evidence)
  const { attempted, confirmed, done, dead, waiting, ...faults } = verdict
  const { lost, ghosts, stranded, doubleEffects, orderViolations, innocentDead } = faults
  const happened = {
    longestRecoverySeconds: Math.round(run.longestRecoveryMs / 100) / 10,
    kills: run.kills,
    pauses: run.pauses,
    killsInsideTransaction: countLines(`${folder}/inside.log`),
    unknownCommits: countLines(`${folder}/unknown.log`),
    databaseRestarts: run.databaseRestarts,
    seed,
  }
  const result = {
    attempted,
    confirmed,
    done,
    duplicates: evidence.duplicates,
    stale: 0,
    dead,
    waiting,
    lost,
    ghosts,
    stranded,
    doubleEffects,
    orderViolations,
    innocentDead,
    ...happened,
  }
  const clean = Object.values(faults).every(count => count === 0)
  const complete = confirmed === attempted && happened.kills >= least.kills && happened.pauses >= least.pauses
  const inside = happened.killsInsideTransaction >= least.killsInsideTransaction
  if (values.json) console.log(JSON.stringify(result))
  else console.table(result)
  if (!complete || !inside)
    say(`the faults did not happen often enough, or not everything was sent: ${JSON.stringify(least)} were wanted`)
  return clean && complete && inside
}

// Everything is settled by now: what is still open (a socket of a server that was killed) must not keep the process.
process.exit((await main()) ? 0 : 1)
