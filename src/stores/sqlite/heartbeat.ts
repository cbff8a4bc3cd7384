import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
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
  const worker = new Worker(thread, { workerData: { path, incarnation, beatMs } })
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
