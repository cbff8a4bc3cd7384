import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { IchidoError } from '../../contracts/errors.ts'
import type { Heartbeat, StoreHost } from '../../contracts/store.ts'
import type { PgPool } from './client.ts'

// The sources run as they are, and the build beside them is JavaScript.
const thread = new URL(
  import.meta.url.endsWith('.ts') ? './heartbeat-thread.ts' : './heartbeat-thread.js',
  import.meta.url,
)

/** The pool's options as another thread can have them, or null when they hold functions (a password callback, a custom stream). */
export function clonableOptions(pool: PgPool): object | null {
  const given = pool.options as Record<string, unknown> | undefined
  if (!given) return null
  const names = ['connectionString', 'host', 'port', 'user', 'database', 'ssl', 'keepAlive', 'options']
  const options: Record<string, unknown> = {}
  for (const name of names) if (given[name] !== undefined) options[name] = given[name]
  // pg hides the password from enumeration, to keep it out of logs.
  if (given.password !== undefined) options.password = given.password
  try {
    return structuredClone(options)
  } catch {
    return null
  }
}

export function startHeartbeatThread(
  host: StoreHost,
  options: object,
  incarnation: string,
  beatMs: number,
  onLost: () => void,
): Heartbeat {
  const worker = new Worker(thread, { workerData: { options, incarnation, beatMs, driver: import.meta.resolve('pg') } })
  worker.unref()
  let stopped = false
  worker.on('message', (message: { kind: string; message?: string }) => {
    if (stopped) return
    if (message.kind === 'lost') onLost()
    else host.onTrouble('heartbeat', new IchidoError('STORE_UNAVAILABLE', `A beat was missed: ${message.message}.`))
  })
  worker.on('error', error => {
    if (!stopped)
      host.onTrouble(
        'heartbeat',
        new IchidoError('STORE_ERROR', `The heartbeat thread failed: ${error}.`, { cause: error }),
      )
  })
  return {
    async stop() {
      if (stopped) return
      stopped = true
      worker.ref()
      const ended = once(worker, 'exit')
      worker.postMessage('stop')
      const timer = host.clock.after(2_000, () => void worker.terminate(), true)
      await ended
      timer.cancel()
    },
  }
}

/** Where the pool's options cannot go to another thread: a handler that blocks the loop for a lease loses its deliveries then. */
export function startLocalHeartbeat(
  host: StoreHost,
  beatMs: number,
  beatOnce: () => Promise<boolean>,
  onLost: () => void,
): Heartbeat {
  let stopped = false
  const turn = async () => {
    try {
      if (!(await beatOnce()) && !stopped) return onLost()
    } catch (error) {
      if (!stopped)
        host.onTrouble('heartbeat', new IchidoError('STORE_UNAVAILABLE', 'A beat was missed.', { cause: error }))
    }
    if (!stopped) timer = host.clock.after(beatMs, () => void turn(), true)
  }
  let timer = host.clock.after(beatMs, () => void turn(), true)
  return {
    async stop() {
      stopped = true
      timer.cancel()
    },
  }
}
