import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Timer } from '../../contracts/clock.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { Heartbeat, StoreHost } from '../../contracts/store.ts'

// The sources run as they are, and the build beside them is JavaScript.
const thread = new URL(
  import.meta.url.endsWith('.ts') ? './heartbeat-thread.ts' : './heartbeat-thread.js',
  import.meta.url,
)

export function startHeartbeatThread(
  host: StoreHost,
  path: string,
  incarnation: string,
  beatMs: number,
  onLost: () => void,
): Heartbeat {
  let stopped = false
  let worker: Worker
  let again: Timer | null = null
  const launch = () => {
    worker = new Worker(thread, { workerData: { path, incarnation, beatMs } })
    worker.unref()
    worker.on('message', (message: { kind: string; message?: string }) => {
      if (stopped) return
      if (message.kind === 'lost') onLost()
      else host.onTrouble('heartbeat', new IchidoError('STORE_UNAVAILABLE', `A beat was missed: ${message.message}.`))
    })
    // A process without beats is taken for dead and would never hear of it: the thread is started again until it runs.
    worker.on('error', error => {
      if (stopped) return
      const text = `The heartbeat thread failed: ${error}.`
      host.onTrouble('heartbeat', new IchidoError('STORE_ERROR', text, { cause: error }))
      again = host.clock.after(beatMs, launch, true)
    })
  }
  launch()
  return {
    async stop() {
      if (stopped) return
      stopped = true
      again?.cancel()
      if (worker.threadId < 0) return
      worker.ref()
      const ended = once(worker, 'exit')
      worker.postMessage('stop')
      await ended
    },
  }
}

/** For a database in memory, which no other thread can open. */
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
      if (!stopped) host.onTrouble('heartbeat', new IchidoError('STORE_ERROR', 'A beat was missed.', { cause: error }))
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
