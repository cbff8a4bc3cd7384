import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { start } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { createShop, note } from './sqlite-shop.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-locks-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const holder = `
  const { DatabaseSync } = require('node:sqlite')
  const database = new DatabaseSync(process.argv[1], { timeout: 5000 })
  database.exec('begin immediate; create table if not exists held (n)')
  process.send('held')
  setTimeout(() => { database.exec('commit'); database.close(); process.disconnect() }, Number(process.argv[2]))`

/** Another process that holds the write lock for a while. */
async function hold(path: string, ms: number): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['-e', holder, path, String(ms)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  await once(child, 'message')
  return child
}

test('the write lock of another process is waited for, and the event loop goes on meanwhile', async () => {
  const path = join(folder, 'waits.db')
  const done: number[] = []
  const shop = createShop(sqlite(path), { handle: ({ message }) => void done.push(message.data.n) })
  await using ichido = await start(shop.config)
  const child = await hold(path, 700)
  let ticks = 0
  const ticking = setInterval(() => ticks++, 10)
  const sends = Promise.all([1, 2, 3].map(n => ichido.send(note, { n })))
  const early = await Promise.race([
    sends.then(() => 'sent'),
    new Promise(resolve => setTimeout(resolve, 400, 'waits')),
  ])
  expect(early).toBe('waits')
  expect(ticks).toBeGreaterThan(15)
  // Readers are not kept out.
  expect((await ichido.store.reads.status()).consumers).toHaveLength(1)
  await sends
  clearInterval(ticking)
  await ichido.idle()
  expect(done).toEqual([1, 2, 3])
  if (child.exitCode === null) await once(child, 'exit')
})

test('a lock that is not let go in time is STORE_BUSY; nothing was written, and the same send goes on later', async () => {
  const path = join(folder, 'busy.db')
  const shop = createShop(sqlite(path, { busyMs: 150 }))
  await using ichido = await start(shop.config, { consume: false })
  const child = await hold(path, 60_000)
  const refused = ichido.send(note, { n: 1 }, { id: 'a' })
  await expect(refused).rejects.toMatchObject({ code: 'STORE_BUSY', retryable: true })
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect(await ichido.store.reads.trace('a')).toEqual([])
  expect(await ichido.send(note, { n: 1 }, { id: 'a' })).toMatchObject({ id: 'a', duplicate: false })
})

test('a worker outlasts a lock longer than it waits, and charges nobody', async () => {
  const path = join(folder, 'outlasts.db')
  const attempts: number[] = []
  const shop = createShop(sqlite(path, { busyMs: 50 }), {
    retry: { maxAttempts: 1 },
    prepare: () => new Promise(resolve => setTimeout(resolve, 100)),
    handle: ({ attempt }) => void attempts.push(attempt),
  })
  await using ichido = await start(shop.config)
  const codes: string[] = []
  ichido.on('degraded', event => codes.push(event.code))
  await ichido.send(note, { n: 1 })
  // The claim is made, and its message is being prepared: now the settling transaction meets the lock.
  await expect.poll(async () => (await ichido.store.reads.status()).consumers[0]?.inProgress).toBe(1)
  const child = await hold(path, 600)
  await once(child, 'exit')
  await ichido.idle()
  expect(codes).toContain('STORE_BUSY')
  expect(attempts).toEqual([1])
  expect((await ichido.store.reads.deadLetters({ limit: 1 })).total).toBe(0)
})

test('a handler that waits for a timer while a send waits for its turn holds up neither for long', async () => {
  const shop = createShop(sqlite(join(folder, 'waiting-handler.db')), {
    async handle({ message }) {
      if (message.data.n === 1) await new Promise(resolve => setTimeout(resolve, 2_000))
    },
  })
  await using ichido = await start(shop.config)
  const dead = Promise.withResolvers<string>()
  ichido.on('dead', event => dead.resolve(event.error.code))
  await ichido.send(note, { n: 1 })
  const startedAt = performance.now()
  await Promise.all([2, 3, 4].map(n => ichido.send(note, { n })))
  expect(await dead.promise).toBe('TX_AWAITED_OUTSIDE')
  expect(performance.now() - startedAt, 'not the two seconds of the handler').toBeLessThan(1_500)
  await ichido.idle()
})
