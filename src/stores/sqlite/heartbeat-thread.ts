/**
 * Beats for its process from a thread of its own, so that a handler that keeps the event loop busy does not look dead. SQLite has no
 * server clock: a wall clock that jumped against the monotonic one is written down, and reaping waits for one lease.
 */
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { beat } from './queries-maintenance.ts'

const JUMP_MS = 1_000
const { path, incarnation, beatMs } = workerData as { path: string; incarnation: string; beatMs: number }
const port = parentPort
if (!port) throw new Error('The heartbeat runs in a worker thread only.')
const database = new DatabaseSync(path, { timeout: Math.min(1_000, beatMs) })
const statement = database.prepare(beat)
let wall = Date.now()
let steady = performance.now()

function beatOnce(): void {
  const now = Date.now()
  const drift = now - wall - (performance.now() - steady)
  wall = now
  steady = performance.now()
  try {
    const changed = statement.run(now, Math.abs(drift) > JUMP_MS ? now : null, incarnation).changes
    if (Number(changed) === 0) port?.postMessage({ kind: 'lost' })
  } catch (error) {
    // A busy or full database: the next beat tries again, and the lease has room for several that are missed.
    port?.postMessage({ kind: 'trouble', message: (error as Error).message })
  }
}

beatOnce()
const timer = setInterval(beatOnce, beatMs)
port.once('message', () => {
  clearInterval(timer)
  database.close()
  port.close()
})
