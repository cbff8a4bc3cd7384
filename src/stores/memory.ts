import { type SqliteStore, sqlite } from './sqlite/store.ts'

/** A store that lives and dies with the process: SQLite in memory, so that there is no third dialect to keep right. */
export function memory(): SqliteStore {
  return sqlite(':memory:')
}
