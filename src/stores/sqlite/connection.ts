import type { DatabaseSync, StatementSync } from 'node:sqlite'

const CACHED_STATEMENTS = 500

export type SqlValue = null | number | bigint | string | NodeJS.ArrayBufferView

/** A connection with its prepared statements. Everything on it is synchronous. */
export class Connection {
  readonly database: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()

  constructor(database: DatabaseSync) {
    this.database = database
  }

  get inTransaction(): boolean {
    return this.database.isTransaction
  }

  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known) return known
    const statement = this.database.prepare(sql)
    // The oldest goes; what is used all the time is prepared again at once, which is cheap next to unbounded memory.
    if (this.#statements.size >= CACHED_STATEMENTS)
      this.#statements.delete(this.#statements.keys().next().value as string)
    this.#statements.set(sql, statement)
    return statement
  }

  run(sql: string, ...params: SqlValue[]): number {
    return Number(this.prepare(sql).run(...params).changes)
  }

  get<Row>(sql: string, ...params: SqlValue[]): Row | undefined {
    return this.prepare(sql).get(...params) as Row | undefined
  }

  all<Row>(sql: string, ...params: SqlValue[]): Row[] {
    return this.prepare(sql).all(...params) as Row[]
  }

  exec(sql: string): void {
    this.database.exec(sql)
  }

  /** What `work` wrote is undone when it throws. */
  undoable<T>(name: string, work: () => T): T {
    this.run(`savepoint ${name}`)
    try {
      const result = work()
      this.run(`release ${name}`)
      return result
    } catch (error) {
      // A full disk or a RAISE(ROLLBACK) ends the transaction, and with it the savepoint.
      if (this.inTransaction) {
        this.run(`rollback to ${name}`)
        this.run(`release ${name}`)
      }
      throw error
    }
  }

  close(): void {
    this.#statements.clear()
    if (this.database.isOpen) this.database.close()
  }
}
