import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { storeSteps } from '../../src/contracts/steps.ts'
import { type CrashPlan, crashEverywhere } from '../../src/testing/index.ts'
import { messages } from './orders.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-crash-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function databaseFor(name: string) {
  return ({ step, hit }: CrashPlan) => {
    const path = join(folder, `${name}-${step}-${hit}.db`)
    const database = new DatabaseSync(path)
    database.exec('create table effect (n integer primary key, id text, key text, sequence integer)')
    database.close()
    return { ICHIDO_CRASH_DATABASE: path }
  }
}

test.concurrent.each(storeSteps)(
  'a process killed at "%s" loses and doubles nothing',
  async step => {
    const config = new URL('./shop-sqlite.ts', import.meta.url)
    const runs = await crashEverywhere({ config, messages, steps: [step], environment: databaseFor('shop') })
    for (const { hit, killed, faults, states, effects } of runs) {
      expect({ step, hit, killed, faults, states, effects }).toEqual({
        step,
        hit,
        killed: true,
        faults: [],
        states: { done: 8, dead: 1 },
        effects: 8,
      })
    }
    expect(runs.length).toBe(3)
  },
  120_000,
)

test.concurrent('a handler that writes outside its transaction is found', async () => {
  const config = new URL('./shop-careless.ts', import.meta.url)
  const runs = await crashEverywhere({
    config,
    messages: messages.slice(0, 1),
    steps: ['prepared'],
    hits: 1,
    environment: databaseFor('careless'),
  })
  expect(runs).toMatchObject([
    { killed: true, effects: 2, faults: ['a1 has 2 effects, and 1 of its deliveries are done'] },
  ])
}, 60_000)

test.concurrent('a step that is never reached is told, not passed over as survived', async () => {
  const config = new URL('./shop-sqlite.ts', import.meta.url)
  const runs = await crashEverywhere({
    config,
    messages: messages.slice(0, 1),
    steps: ['acked'],
    hits: 1,
    environment: databaseFor('unreached'),
  })
  expect(runs).toMatchObject([{ killed: false, faults: [], effects: 1 }])
}, 60_000)
