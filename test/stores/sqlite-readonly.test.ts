import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { codeOf } from '../../src/testing/test-framework.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-readonly-'))
const host = { clock: systemClock, incarnation: 'reader', build: null, onTrouble: () => {} }

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('a store that only looks reads what others write, and writes nothing itself', async () => {
  const path = join(folder, 'app.db')
  const writing = sqlite(path)
  await writing.open(host)
  await writing.migrate()
  const reading = sqlite(path, { readOnly: true })
  await reading.open(host)
  await reading.checkSchema()
  expect(await reading.subscriptions()).toEqual([])
  await writing.subscribe([{ consumer: 'billing', topic: 'order', types: ['order'], fingerprint: 'f' }], false)
  expect(await reading.subscriptions()).toHaveLength(1)
  expect(await codeOf(() => reading.audit('look', 'all', { actor: 'me', reason: 'test' }, {}))).toBe('STORE_READ_ONLY')
  await reading.close()
  await writing.close()
})

test('a file of somebody else stays as it is', async () => {
  const path = join(folder, 'other.db')
  const other = new DatabaseSync(path)
  other.exec('create table thing (id integer)')
  other.close()
  const before = readFileSync(path)
  const store = sqlite(path, { readOnly: true })
  await store.open(host)
  expect(await codeOf(() => store.checkSchema())).toBe('SCHEMA_MISSING')
  expect(await codeOf(() => store.migrate())).toBe('STORE_READ_ONLY')
  await store.close()
  expect(readFileSync(path).equals(before)).toBe(true)
})

test('what is no database is refused, and what is not there is not made', async () => {
  const text = join(folder, 'text.db')
  writeFileSync(text, 'not a database, and long enough to have a header of a hundred bytes. '.repeat(3))
  expect(await codeOf(() => sqlite(text, { readOnly: true }).open(host))).toBe('STORE_CORRUPT')
  const missing = sqlite(join(folder, 'missing', 'app.db'), { readOnly: true })
  expect(await codeOf(() => missing.open(host))).toBe('STORE_UNAVAILABLE')
  expect(readdirSync(folder)).not.toContain('missing')
})
