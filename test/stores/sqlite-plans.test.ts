import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import * as hot from '../../src/stores/sqlite/queries.ts'
import * as loops from '../../src/stores/sqlite/queries-maintenance.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'

// 200,000 deliveries of one consumer: a third ready, a third dead, the rest delayed, retrying or behind; nobody has run ANALYZE.

const ROWS = 200_000
const folder = mkdtempSync(join(tmpdir(), 'ichido-plans-'))
const path = join(folder, 'app.db')
const store = sqlite(path)
let database: DatabaseSync

beforeAll(async () => {
  await store.open({ clock: systemClock, incarnation: 'p1', build: null, onTrouble: () => {} })
  await store.migrate()
  database = new DatabaseSync(path)
  database.exec(`pragma synchronous = off; begin;
    create temp table number as with recursive n(n) as (select 1 union all select n + 1 from n where n < ${ROWS}) select n from n;
    insert into ichido_identity (consumer, topic, message_id, hash, state, accepted_at, finished_at, delivery_id)
      select 'billing', 'order', 'm' || n, x'00', iif(n % 2, 'open', 'done'), n, iif(n % 2, null, n), n from number;
    insert into ichido_delivery (id, consumer, topic, message_id, type, version, key, pos, state, due_at, sent_at, headers, body, held)
      select n, 'billing', 'order', 'm' || n, 'order', 1, iif(n % 2, 'k' || n % 5000, null), n,
        case n % 6 when 0 then 'dead' when 1 then 'dead' when 2 then 'delayed' when 3 then 'behind' else 'ready' end,
        iif(n % 6 = 2, 9e15, null), n, '{}', zeroblob(200), 1 from number;
    update ichido_sequence set pos = ${ROWS}, delivery = ${ROWS}; commit`)
}, 60_000)

afterAll(async () => {
  database.close()
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

function planOf(sql: string): string[] {
  return database
    .prepare(`explain query plan ${sql}`)
    .all()
    .map(row => String(row.detail))
}

const large = /^SCAN (ichido_delivery|ichido_identity|ichido_attempt|d|i|a)\b/

/** They answer for a whole process, at its death and at its end: once, and not while it works. */
const ofWholeProcesses = ['selectOwned', 'releaseOwned']

describe('no statement scans a large table', () => {
  const statements = Object.entries({ ...hot, ...loops }).filter(([name]) => !ofWholeProcesses.includes(name))
  test.each(statements)('%s', (_, sql) => {
    expect(planOf(sql).filter(step => large.test(step))).toEqual([])
  })

  test('and this test would see one that does', () => {
    expect(planOf('select 1 from ichido_delivery where attempts > 3').filter(step => large.test(step))).toHaveLength(1)
  })
})

test.each([
  ['selectWindow', hot.selectWindow, 'ichido_delivery_ready'],
  ['selectFirstOfKey', hot.selectFirstOfKey, 'ichido_delivery_key'],
  ['selectDue', hot.selectDue, 'ichido_delivery_timer'],
  ['selectSuspects', hot.selectSuspects, 'ichido_delivery_waiting'],
  ['selectWaitingHeir', hot.selectWaitingHeir, 'ichido_delivery_replaces'],
])('%s walks its index', (_, sql, index) => {
  const plan = planOf(sql)
  expect(plan[0]).toContain(`USING INDEX ${index}`)
  // What is due is sorted over two ranges of the timer index, the heirs of one message by their places: few rows both.
  const maySort = index === 'ichido_delivery_timer' || index === 'ichido_delivery_replaces'
  if (!maySort) expect(plan.some(step => step.includes('TEMP B-TREE'))).toBe(false)
})
