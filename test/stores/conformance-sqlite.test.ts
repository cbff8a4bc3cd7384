import { describe, expect, it } from 'vitest'
import { storeSuite } from '../../src/testing/index.ts'
import { createSqliteFixture } from './fixture-sqlite.ts'

storeSuite({ name: 'SQLite', shared: true, create: createSqliteFixture }, { describe, it, expect })
