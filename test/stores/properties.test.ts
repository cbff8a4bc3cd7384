import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { StoreFixture } from '../../src/testing/index.ts'
import { Scene } from '../../src/testing/store-suite/scene.ts'
import { createPostgresFixture } from './fixture-postgres.ts'
import { createSqliteFixture } from './fixture-sqlite.ts'
import { createDatabase, type TestDatabase } from './postgres-database.ts'
import { type Fate, type Operation, SessionOnModel } from './session-on-model.ts'

// Random lives of messages on the real stores, compared with a model of forty lines. On a failure fast-check prints the seed and the
// shortest sequence that still fails: it belongs into `pinned`.

const pinned: readonly (readonly Operation[])[] = [
  [
    { do: 'send', key: 'a', delayMs: 0, count: 3 },
    { do: 'claim', owner: 0, max: 3 },
    { do: 'lose' },
    { do: 'suspect', owner: 0 },
    { do: 'settle', pick: 0, fates: ['dead'] },
    { do: 'suspect', owner: 0 },
    { do: 'late', pick: 0 },
  ],
  [
    { do: 'send', key: 'a', delayMs: 0, count: 3 },
    { do: 'claim', owner: 0, max: 1 },
    { do: 'settle', pick: 0, fates: ['passed'] },
    { do: 'redrive', pick: 0 },
    { do: 'claim', owner: 1, max: 2 },
    { do: 'settle', pick: 0, fates: ['retry'] },
  ],
]

const owner = fc.constantFrom(0 as const, 1 as const)
const key = fc.constantFrom('a', 'a', 'b', null)
const pick = fc.nat({ max: 20 })
const fate = fc.constantFrom<Fate[]>('done', 'done', 'done', 'retry', 'dead', 'passed', 'released')

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      key,
      delayMs: fc.constantFrom(0, 0, 0, 1_500, 40_000),
      count: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('claim' as const), owner, max: fc.integer({ min: 1, max: 6 }) }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      pick,
      fates: fc.array(fate, { minLength: 1, maxLength: 5 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('suspect' as const), owner }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'resend' as const,
        'redrive' as const,
        'discard' as const,
        'edit' as const,
        'unblock' as const,
        'late' as const,
      ),
      pick,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('giveBack' as const), owner }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(500, 2_000, 50_000) }) },
)

async function live(
  name: string,
  create: () => Promise<StoreFixture>,
  operations: readonly Operation[],
): Promise<void> {
  const scene = await Scene.open({ name, shared: true, create }, expect)
  try {
    await scene.subscribe('billing')
    const session = new SessionOnModel(scene)
    for (const each of operations) await session.perform(each)
    await session.end()
  } finally {
    await scene.close()
  }
}

function property(name: string, create: () => Promise<StoreFixture>): Promise<void> {
  const lives = fc.array(operation, { minLength: 1, maxLength: 45, size: 'max' })
  return fc.assert(
    fc.asyncProperty(lives, operations => live(name, create, operations)),
    {
      numRuns: Number(process.env.ICHIDO_PROPERTY_RUNS ?? 120),
      interruptAfterTimeLimit: Number(process.env.ICHIDO_PROPERTY_MS ?? 25_000),
      examples: pinned.map(operations => [[...operations]] as [Operation[]]),
    },
  )
}

test('SQLite does what the model does', () => property('SQLite', createSqliteFixture), 300_000)

const server = process.env.ICHIDO_TEST_POSTGRES

describe.skipIf(server === undefined)('on a real server', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createDatabase(server as string)
  })
  afterAll(() => database?.drop())

  test(
    'PostgreSQL does what the model does',
    () => property('PostgreSQL', () => createPostgresFixture(database)),
    300_000,
  )
})
