import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, test } from 'vitest'
import { PostgresUnavailable, startPostgres } from '../../scripts/services/postgres.ts'

const version = Number(process.env.ICHIDO_TEST_POSTGRES_VERSION ?? 18)
const script = fileURLToPath(new URL('../../scripts/services/postgres.ts', import.meta.url))

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

/** The server's URL and folder, once the command has printed the one line it prints. */
async function started(command: ChildProcess): Promise<{ url: string; folder: string }> {
  const [line] = await once(command.stdout!, 'data')
  const url = String(line).trim()
  const [row] = (await query(url, `select current_setting('data_directory') as folder`)) as { folder: string }[]
  return { url, folder: dirname(row!.folder) }
}

test.skipIf(!process.env.ICHIDO_TEST_POSTGRES)(
  'a server keeps its port and its data through every kind of stop',
  async () => {
    const server = await startPostgres({ version, settings: { work_mem: '5MB' } })
    try {
      await query(server.url, 'create table kept as select 1 as x')
      expect(await query(server.socketUrl, 'show work_mem')).toEqual([{ work_mem: '5MB' }])
      const stops = [() => server.restart(), () => server.restart({ immediate: true }), () => server.kill()]
      for (const stop of stops) {
        const pid = server.pid
        await stop()
        if (server.pid === undefined) await server.restart()
        expect(server.pid).not.toBe(pid)
        expect(await query(server.url, 'select x from kept')).toEqual([{ x: 1 }])
      }
    } finally {
      await server.stop()
      await server.stop()
    }
    expect(existsSync(dirname(server.dataDir))).toBe(false)
  },
)

test.skipIf(!process.env.ICHIDO_TEST_POSTGRES).each(['SIGTERM', 'SIGKILL'] as const)(
  'a command that ends by %s leaves no server behind',
  async signal => {
    const command = spawn(process.execPath, [script, 'start', '--version', String(version)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const { url, folder } = await started(command)
    command.kill(signal)
    const [code] = await once(command, 'exit')
    expect(code).toBe(signal === 'SIGTERM' ? 0 : null)
    for (let tries = 0; existsSync(folder) && tries < 100; tries++) await sleep(100)
    expect(existsSync(folder)).toBe(false)
    await expect(query(url, 'select 1')).rejects.toThrow()
  },
)

test('a version that is not there says what to install', async () => {
  const attempt = startPostgres({ version: 9 })
  await expect(attempt).rejects.toThrow(PostgresUnavailable)
  await expect(attempt).rejects.toThrow('install the package postgresql-9')
})
