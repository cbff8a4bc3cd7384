import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface LossyProxy {
  readonly port: number
  /**
   * What happens to the next COMMIT: it passes, it reaches the server but its answer is dropped together with the connection, or the
   * connection is dropped before it reaches the server.
   */
  onCommit: 'pass' | 'drop answer' | 'drop commit'
  /** New connections are refused, and those that are open end. */
  cut(): void
  close(): Promise<void>
}

/** A TCP proxy before a PostgreSQL server that loses what it is told to lose. */
export async function startProxy(target: { host: string; port: number }): Promise<LossyProxy> {
  const sockets = new Set<Socket>()
  const server = createServer(client => relay(client))
  const proxy: LossyProxy = {
    port: 0,
    onCommit: 'pass',
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    async close() {
      this.cut()
      server.close()
      await once(server, 'close')
    },
  }

  function relay(client: Socket): void {
    const upstream = connect(target.port, target.host)
    let muted = false
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        end()
      })
    }
    client.on('data', data => {
      if (proxy.onCommit === 'pass' || !/^Q....commit\0$/s.test(data.toString('latin1'))) {
        upstream.write(data)
        return
      }
      const loses = proxy.onCommit
      proxy.onCommit = 'pass'
      if (loses === 'drop commit') return end()
      muted = true
      upstream.write(data)
    })
    upstream.on('data', data => {
      if (muted) end()
      else client.write(data)
    })
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return Object.assign(proxy, { port: address.port })
}
