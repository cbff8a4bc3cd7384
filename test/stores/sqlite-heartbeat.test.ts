import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { FakeClock } from '../../src/testing/index.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-heartbeat-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const info = { host: 'here', pid: 1, consumers: ['billing'], build: null }

test('a heartbeat thread that fails is started again', async () => {
  const troubles: string[] = []
  const store = sqlite(join(folder, 'late.db'))
  const onTrouble = (part: string) => void troubles.push(part)
  await store.open({ clock: systemClock, incarnation: 'p1', build: null, onTrouble })
  // Without its table the thread cannot even prepare its statement.
  const heartbeat = await store.heartbeat('p1', 20, () => troubles.push('lost'))
  await expect.poll(() => troubles).toContain('heartbeat')
  await store.migrate()
  await store.register({ incarnation: 'p1', ...info })
  const isBeating = async () => {
    await systemClock.sleep(100)
    return (await store.maintenance.reap(90, 3)).length === 0
  }
  await systemClock.sleep(500)
  for (let round = 0; round < 5; round++) expect(await isBeating()).toBe(true)
  await heartbeat.stop()
  await heartbeat.stop()
  await systemClock.sleep(200)
  expect(await store.maintenance.reap(90, 3)).toMatchObject([{ incarnation: 'p1' }])
  await store.close()
})

test('a heartbeat can be stopped while its thread is down', async () => {
  const troubles: string[] = []
  const store = sqlite(join(folder, 'never.db'))
  const onTrouble = (part: string) => void troubles.push(part)
  await store.open({ clock: systemClock, incarnation: 'p1', build: null, onTrouble })
  const heartbeat = await store.heartbeat('p1', 10_000, () => {})
  await expect.poll(() => troubles).toEqual(['heartbeat'])
  await heartbeat.stop()
  await store.close()
})

test.each([
  ['forwards', 3_600_000],
  ['backwards', -3_600_000],
])('a wall clock that jumps %s makes nobody look dead for one lease', async (_, jumpMs) => {
  const clock = new FakeClock()
  const store = sqlite(join(folder, `jump${jumpMs}.db`))
  await store.open({ clock, incarnation: 'p1', build: null, onTrouble: () => {} })
  await store.migrate()
  await store.register({ incarnation: 'p2', ...info })
  await clock.advance(10_000)
  expect(await store.maintenance.reap(30_000, 3)).toEqual([])
  clock.jump(jumpMs)
  // p2 beats every few seconds; its last beat still tells the old time.
  expect(await store.maintenance.reap(30_000, 3)).toEqual([])
  await clock.advance(29_000)
  expect(await store.maintenance.reap(30_000, 3)).toEqual([])
  await clock.advance(Math.max(0, -jumpMs) + 40_000)
  expect(await store.maintenance.reap(30_000, 3)).toMatchObject([{ incarnation: 'p2' }])
  await store.close()
})
