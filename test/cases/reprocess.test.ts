import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { changeDeadLetters, selectDeadLetters } from '../../src/cases/reprocess.ts'
import type { Store } from '../../src/contracts/store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { trade } from '../cli/shop.ts'

const by = { actor: 'ann', reason: 'test' }
let folder: string
let store: Store

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ichido-cases-'))
  await trade(join(folder, 'shop.db'))
  store = sqlite(join(folder, 'shop.db'), { busyMs: 100 }) as unknown as Store
  await store.open({ clock: systemClock, incarnation: 'test', build: null, onTrouble: () => {} })
})

afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

test('a dry run refuses what the real one would, and changes nothing', async () => {
  const letters = await selectDeadLetters(store, { consumer: 'billing' })
  const gone = { consumer: 'billing', topic: 'order.placed', id: 'gone' }
  const done = { ...gone, id: 'order-1' }
  const outcomes = (changes: readonly { outcome: string }[]) => changes.map(change => change.outcome)
  const dry = await changeDeadLetters(store, 'discard', [...letters, gone, done], by, false)
  expect(outcomes(dry)).toEqual(['possible', 'possible', 'refused', 'refused'])
  expect(dry.slice(2).map(change => change.code)).toEqual(['NOT_FOUND', 'CONFLICT'])
  expect(await selectDeadLetters(store, { consumer: 'billing' })).toEqual(letters)
  const real = await changeDeadLetters(store, 'discard', [...letters, gone, done], by, true)
  expect(outcomes(real)).toEqual(['applied', 'applied', 'refused', 'refused'])
  expect(await selectDeadLetters(store, { consumer: 'billing' })).toEqual([])
  expect(outcomes(await changeDeadLetters(store, 'redrive', letters, by, true))).toEqual(['refused', 'refused'])
})

test('a store that fails half way is told, with what was done before and what was not tried', async () => {
  const letters = await selectDeadLetters(store, { consumer: 'billing' })
  const [first, second] = letters
  if (!first || !second) throw new Error('the shop has two dead letters')
  await changeDeadLetters(store, 'redrive', [first], by, true)
  const other = new DatabaseSync(join(folder, 'shop.db'))
  other.exec('begin immediate')
  const changes = await changeDeadLetters(store, 'redrive', [second, first], by, true)
  other.exec('rollback')
  other.close()
  expect(changes.map(({ id, outcome, code }) => [id, outcome, code])).toEqual([
    [second.id, 'failed', 'STORE_BUSY'],
    [first.id, 'skipped', 'STORE_BUSY'],
  ])
  expect((await selectDeadLetters(store, {})).map(letter => letter.id)).toEqual([second.id])
})
