import { execFileSync } from 'node:child_process'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, describe, expect, test } from 'vitest'
import type { Events } from '../../src/contracts/events.ts'
import { start } from '../../src/index.ts'
import { checkBooks } from '../../src/observe/books.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { createShop, note } from './sqlite-shop.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-faults-'))
const disks: string[] = []
const small = mountDisk(3)
const larger = mountDisk(96)

/** Null where nobody may mount. */
function mountDisk(megabytes: number): string | null {
  const disk = join(folder, `disk-${megabytes}`)
  mkdirSync(disk)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', disk], { stdio: 'ignore' })
    disks.push(disk)
    return disk
  } catch {
    return null
  }
}

afterAll(() => {
  for (const disk of disks) execFileSync('umount', ['-l', disk])
  rmSync(folder, { recursive: true, force: true })
})

describe.skipIf(small === null || larger === null)('a full disk', () => {
  test('fails sends with STORE_FULL, charges no message, and everything goes on when there is space', async () => {
    const disk = small as string
    const ballast = join(disk, 'ballast')
    const attempts: number[] = []
    const shop = createShop(sqlite(join(disk, 'app.db')), {
      retry: { maxAttempts: 2, baseMs: 5, capMs: 5 },
      handle({ message, tx, attempt }) {
        attempts.push(attempt)
        tx.run('insert into effect (n, text) values (?, ?)', message.data.n, 'x'.repeat(100_000))
      },
    })
    await using ichido = await start(shop.config)
    const degraded: Events['degraded'][] = []
    ichido.on('degraded', event => degraded.push(event))
    await ichido.transaction(({ tx }) => tx.run('create table effect (n integer primary key, text text)'))
    await ichido.send(note, { n: 0 })
    await ichido.idle()
    fill(ballast, 1_800_000)
    const refused = await sendUntilRefused(n => ichido.send(note, { n, text: 'y'.repeat(50_000) }, { id: `m${n}` }))
    expect(refused.code).toBe('STORE_FULL')
    await expect.poll(() => degraded.map(event => event.code)).toContain('STORE_FULL')
    // Long enough for several tries: with two attempts in all, a charged one would be a dead letter soon.
    await new Promise(resolve => setTimeout(resolve, 700))
    rmSync(ballast)
    const { id } = await ichido.send(note, { n: refused.n, text: 'y' }, { id: `m${refused.n}-again` })
    await ichido.idle()
    expect(await ichido.store.reads.deadLetters({ limit: 10 })).toEqual({ letters: [], total: 0 })
    expect((await ichido.store.reads.trace(id))[0]?.state).toBe('done')
    expect(Math.max(...attempts)).toBe(1)
    expect(attempts.length, 'some handlers ran again').toBeGreaterThan(refused.n + 1)
    const books = checkBooks(await ichido.store.reads.ledger(), await ichido.store.reads.sweep())
    expect(books.lines.filter(line => !line.balanced)).toEqual([])
    const [row] = await ichido.transaction(({ tx }) => tx.all<{ n: number }>('select count(*) as n from effect'))
    expect(row?.n).toBe(refused.n + 1)
  }, 60_000)

  test('that the statement of a handler meets is not the fault of its message', async () => {
    const disk = larger as string
    const ballast = join(disk, 'ballast')
    const seen: string[] = []
    const inStatement: number[] = []
    const shop = createShop(sqlite(join(disk, 'app.db')), {
      retry: { maxAttempts: 1 },
      handle({ message, tx, attempt }) {
        seen.push(`${message.data.n}: ${attempt}`)
        // More than the page cache holds, so that it reaches the disk before the commit.
        if (message.data.n !== 1) return
        try {
          for (let n = 0; n < 40; n++) tx.run('insert into effect (text) values (zeroblob(1000000))')
        } catch (error) {
          inStatement.push((error as { errcode: number }).errcode)
          throw error
        }
      },
    })
    await using ichido = await start(shop.config)
    await ichido.transaction(({ tx }) => tx.run('create table effect (n integer primary key, text blob)'))
    fill(ballast, 8_000_000)
    await ichido.transaction(async ({ send }) => {
      for (const n of [0, 1, 2]) await send(note, { n })
    })
    await expect.poll(() => inStatement.length, { timeout: 5_000 }).toBeGreaterThan(2)
    expect(new Set(inStatement)).toEqual(new Set([13]))
    rmSync(ballast)
    await ichido.idle()
    expect(await ichido.store.reads.deadLetters({ limit: 10 })).toEqual({ letters: [], total: 0 })
    expect(new Set(seen)).toEqual(new Set(['0: 1', '1: 1', '2: 1']))
    const [row] = await ichido.transaction(({ tx }) => tx.all<{ n: number }>('select count(*) as n from effect'))
    expect(row?.n).toBe(40)
  }, 60_000)
})

/** Fills the disk but for `room` bytes. */
function fill(path: string, room: number): void {
  const file = openSync(path, 'w')
  try {
    for (;;) writeSync(file, Buffer.alloc(65_536))
  } catch {
    truncateSync(path, Math.max(0, fstatSync(file).size - room))
  } finally {
    closeSync(file)
  }
}

async function sendUntilRefused(send: (n: number) => Promise<unknown>): Promise<{ n: number; code: string }> {
  for (let n = 1; n < 200; n++) {
    try {
      await send(n)
    } catch (error) {
      return { n, code: (error as { code: string }).code }
    }
  }
  return { n: 0, code: 'never full' }
}

describe('a file that is no database', () => {
  test('is told at once, and left as it is', async () => {
    const path = join(folder, 'text.db')
    writeFileSync(
      path,
      'this is a text file, and longer than a header of SQLite would be, which has 100 bytes. '.repeat(9),
    )
    await expect(start(createShop(sqlite(path)).config)).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
  })

  test('whose pages were overwritten while nobody looked', async () => {
    const path = join(folder, 'broken.db')
    const shop = createShop(sqlite(path))
    const ichido = await start(shop.config)
    for (let n = 0; n < 50; n++) await ichido.send(note, { n })
    await ichido.idle()
    await ichido.stop()
    const database = new DatabaseSync(path)
    database.exec('pragma wal_checkpoint(truncate)')
    database.close()
    const file = openSync(path, 'r+')
    writeSync(file, Buffer.alloc(8_000, 0xff), 0, 8_000, 4_096)
    closeSync(file)
    await expect(start(createShop(sqlite(path)).config)).rejects.toMatchObject({ code: 'STORE_CORRUPT' })
  })
})
