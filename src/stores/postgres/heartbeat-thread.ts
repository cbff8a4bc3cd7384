/** Beats for its process from a thread and a connection of its own, so that a handler that keeps the event loop busy does not look dead. */
import { parentPort, workerData } from 'node:worker_threads'
import { beat } from './queries-maintenance.ts'

interface Client {
  connect(): Promise<void>
  query(text: string, values: unknown[]): Promise<{ rowCount: number | null }>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
}

const { options, incarnation, beatMs, driver } = workerData as {
  options: object
  incarnation: string
  beatMs: number
  driver: string
}
const port = parentPort
if (!port) throw new Error('The heartbeat runs in a worker thread only.')
const { default: pg } = (await import(driver)) as { default: { Client: new (config: object) => Client } }
let client: Client | null = null
let stopped = false

async function beatOnce(): Promise<void> {
  try {
    if (!client) {
      const fresh = new pg.Client({ ...options, application_name: 'ichido heartbeat' })
      fresh.on('error', () => {
        client = null
      })
      await fresh.connect()
      client = fresh
    }
    const { rowCount } = await client.query(beat, [incarnation, null])
    if (rowCount === 0) port?.postMessage({ kind: 'lost' })
  } catch (error) {
    // The next beat connects again, and the lease has room for several that are missed.
    client?.end().catch(() => {})
    client = null
    port?.postMessage({ kind: 'trouble', message: (error as Error).message })
  }
}

port.on('message', () => {
  stopped = true
  clearTimeout(timer)
  void client?.end().catch(() => {})
  port.close()
})

let timer: NodeJS.Timeout
async function turn(): Promise<void> {
  await beatOnce()
  if (!stopped) timer = setTimeout(() => void turn(), beatMs)
}
void turn()
