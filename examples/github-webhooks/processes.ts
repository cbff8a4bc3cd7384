import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../src/runtime/clock.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'

type Environment = Readonly<Record<string, string>>

/** Where in the run the worker is killed. */
const kills = [0.15, 0.35, 0.55, 0.75, 0.95]

function run(file: string, environment: Environment): ChildProcess {
  return fork(fileURLToPath(new URL(file, import.meta.url)), [], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

export async function startEndpoint(environment: Environment) {
  const child = run('./endpoint.ts', environment)
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  return { port, stop: () => end(child, 'SIGTERM') }
}

/** A worker that is started again whenever it dies. */
export async function startWorker(environment: Environment) {
  let killed = 0
  let stopping = false
  let child = run('./worker.ts', environment)
  const watch = (current: ChildProcess) =>
    current.once('exit', () => {
      if (stopping) return
      child = run('./worker.ts', environment)
      watch(child)
    })
  watch(child)
  await once(child, 'message')
  return {
    killAt(share: number) {
      if (share < (kills[killed] ?? 2)) return
      killed++
      child.kill('SIGKILL')
    },
    untilIdle,
    async stop() {
      stopping = true
      await end(child, 'SIGTERM')
      return killed
    },
  }
}

/** Waits until nothing is due, in progress or waiting for its next try. Returns how long that took. */
async function untilIdle(path: string): Promise<number> {
  const store = sqlite(path)
  await store.open({ clock: systemClock, incarnation: 'watcher', build: null, onTrouble: () => {} })
  const startedAt = performance.now()
  try {
    for (;;) {
      const { consumers } = await store.reads.status()
      const busy = consumers.reduce(
        (sum, { states, inProgress }) =>
          sum + inProgress + states.ready + states.retry + states.suspect + states.behind,
        0,
      )
      if (busy === 0) return performance.now() - startedAt
      if (performance.now() - startedAt > 60_000)
        throw new Error(`The worker is not done after a minute: ${busy} deliveries are open.`)
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  } finally {
    await store.close()
  }
}
