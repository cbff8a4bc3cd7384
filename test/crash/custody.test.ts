import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { transportSteps } from '../../src/contracts/steps.ts'
import { openBroker, workAt } from './custody-broker.ts'

// The way of a transport's copies into the store, cut off at each of its boundaries: what was not acked comes again, and is known.

const folder = mkdtempSync(join(tmpdir(), 'ichido-custody-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const config = new URL('./shop-sqlite.ts', import.meta.url).href
const plans = transportSteps.flatMap(step => [1, 2].map(hit => ({ step, hit })))

test.concurrent.each(plans)(
  'a worker killed at "$step", hit $hit, loses and doubles nothing',
  async plan => {
    const path = join(folder, `${plan.step}-${plan.hit}.db`)
    const database = new DatabaseSync(path)
    database.exec('create table effect (n integer primary key, id text, key text, sequence integer)')
    database.close()
    const environment = { ICHIDO_CRASH_DATABASE: path }
    const broker = await openBroker()
    const first = await workAt(broker, { config, plan }, environment)
    expect(first.end, first.output).toBe('SIGKILL')
    const second = await workAt(broker, { config, plan: null }, environment)
    expect(second.end, second.output).toBe('0')
    expect(second.findings?.faults).toEqual([])
    expect([...(second.findings?.effects ?? [])].sort()).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'b2'])
    expect(second.findings?.dead).toEqual(['never'])
    const left = await broker.subscribe('order.placed', 'billing')
    expect(await left.receive(100, AbortSignal.timeout(50)), 'copies that were never acked').toEqual([])
  },
  120_000,
)
