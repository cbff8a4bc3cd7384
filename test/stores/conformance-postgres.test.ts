import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { storeSuite } from '../../src/testing/index.ts'
import { createPostgresFixture } from './fixture-postgres.ts'
import { createDatabase, type TestDatabase } from './postgres-database.ts'

const server = process.env.ICHIDO_TEST_POSTGRES
let database: TestDatabase

describe.skipIf(server === undefined)('on a real server', () => {
  beforeAll(async () => {
    database = await createDatabase(server as string)
  })
  afterAll(() => database?.drop())
  storeSuite(
    { name: 'PostgreSQL', shared: true, create: () => createPostgresFixture(database) },
    { describe, it, expect },
  )
})
