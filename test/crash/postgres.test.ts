import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { storeSteps } from '../../src/contracts/steps.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { postgres } from '../../src/stores/postgres/store.ts'
import { crashEverywhere } from '../../src/testing/index.ts'
import { createDatabase, type TestDatabase } from '../stores/postgres-database.ts'
import { messages } from './orders.ts'

const server = process.env.ICHIDO_TEST_POSTGRES
let database: TestDatabase

/** Empties the database and makes what the shop needs; the dead of earlier runs have left nothing but rows. */
async function renew(): Promise<void> {
  await database.clear()
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  await client.query('create table effect (n bigserial primary key, id text, key text, sequence integer)')
  await client.end()
}

describe.skipIf(server === undefined)('on PostgreSQL', () => {
  beforeAll(async () => {
    database = await createDatabase(server as string)
    const store = postgres(database.pool())
    await store.open({ clock: systemClock, incarnation: 'setup', build: null, onTrouble: () => {} })
    await store.migrate()
    await store.close()
  })
  afterAll(() => database?.drop())

  test.each(storeSteps)(
    'a process killed at "%s" loses and doubles nothing',
    async step => {
      const runs = await crashEverywhere({
        config: new URL('./shop-postgres.ts', import.meta.url),
        messages,
        steps: [step],
        environment: async () => {
          await renew()
          return { ICHIDO_CRASH_DATABASE: database.url }
        },
      })
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
})
