import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { start } from '../../src/index.ts'
import { checkBooks } from '../../src/observe/books.ts'
import { subscriptionsOf } from '../../src/runtime/consumers.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { KILLER } from './sqlite-killer-process.ts'
import { createShop, note } from './sqlite-shop.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-killer-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const program = fileURLToPath(new URL('./sqlite-killer-process.ts', import.meta.url))

/** Runs a worker to its end; how it ended. */
async function live(path: string): Promise<string> {
  const child = spawn(process.execPath, [program, path], { stdio: 'inherit' })
  const [code, signal] = await once(child, 'exit')
  return signal ?? String(code)
}

test('a message that kills its process is dead after three deaths alone, and no innocent with it', async () => {
  const path = join(folder, 'app.db')
  const shop = createShop(sqlite(path))
  await using ichido = await start(shop.config, { consume: false })
  await ichido.store.subscribe(shop.config.consumers.flatMap(subscriptionsOf), false)
  await ichido.transaction(async ({ tx, send }) => {
    tx.run('create table effect (n integer, attempt integer)')
    // With and without a key, in front of the killer, behind it and of its own key.
    for (let n = 0; n < 40; n++) await send(note, { n }, { id: `m${n}`, key: n % 2 === 0 ? `k${n % 4}` : null })
    await send(note, { n: 100 }, { id: 'alone' })
  })
  const ends: string[] = []
  while (ends.length < 12 && ends.at(-1) !== '0') ends.push(await live(path))
  expect(ends.at(-1)).toBe('0')
  const deaths = ends.filter(end => end === 'SIGKILL').length
  // Once or more in company, which is charged to nobody, and three times alone.
  expect(deaths).toBeGreaterThanOrEqual(4)
  const { letters } = await ichido.store.reads.deadLetters({ limit: 10 })
  expect(letters).toMatchObject([{ id: `m${KILLER}`, code: 'KILLS_PROCESS', label: 'unknown', deaths: 3 }])
  const rows = await ichido.transaction(({ tx }) =>
    tx.all<{ n: number; attempt: number }>('select n, attempt from effect order by n'),
  )
  const innocent = [...Array(40).keys(), 100].filter(n => n !== KILLER)
  expect(rows.map(row => row.n)).toEqual(innocent)
  expect(
    rows.every(row => row.attempt === 1),
    'nobody else was charged an attempt',
  ).toBe(true)
  const books = checkBooks(await ichido.store.reads.ledger(), await ichido.store.reads.sweep())
  expect(books.lines.filter(line => !line.balanced)).toEqual([])
}, 60_000)
