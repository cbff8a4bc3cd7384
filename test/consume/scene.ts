import { z } from 'zod'
import type { ConsumerOptions } from '../../src/consume/consumer.ts'
import type { DeadLetter } from '../../src/contracts/cases.ts'
import type { Events } from '../../src/contracts/events.ts'
import { defineConsumer, defineIchido, defineMessage, type ErrorReport, type Ichido, start } from '../../src/index.ts'
import { checkBooks } from '../../src/observe/books.ts'
import { memory } from '../../src/stores/memory.ts'
import type { SqliteStore, SqliteTx } from '../../src/stores/sqlite/store.ts'

export const order = defineMessage({
  type: 'order',
  schema: z.object({ n: z.number(), what: z.string().optional() }),
})

type Options = ConsumerOptions<typeof order, SqliteTx, unknown>

export interface Scene extends AsyncDisposable {
  readonly ichido: Ichido<SqliteTx>
  readonly store: SqliteStore
  readonly settled: Events['settled'][]
  readonly reports: ErrorReport[]
  /** The numbers that handlers have written, in order; what was rolled back is not among them. */
  effects(): Promise<number[]>
  dead(): Promise<readonly DeadLetter[]>
  /** Idle, and the books balance. */
  finish(): Promise<void>
}

/** A running consumer on a store in memory, with backoffs of milliseconds. */
export async function createScene(consumer: Partial<Options> & Pick<Options, 'handle'>): Promise<Scene> {
  const store = memory()
  const reports: ErrorReport[] = []
  const settled: Events['settled'][] = []
  const billing = defineConsumer({
    store,
    name: 'billing',
    messages: [order],
    retry: { baseMs: 2, capMs: 8, maxAttempts: 4 },
    ...consumer,
  })
  const config = defineIchido({ store, consumers: [billing], pollMs: 20, onError: report => void reports.push(report) })
  const ichido = await start(config)
  ichido.on('settled', event => settled.push(event))
  await ichido.transaction(({ tx }) => {
    tx.run('create table effect (id integer primary key, n integer)')
  })
  const all = () =>
    store.transaction(session => session.lease('').tx.all<{ n: number }>('select n from effect order by id'))
  return {
    ichido,
    store,
    settled,
    reports,
    effects: async () => (await all()).map(row => row.n),
    dead: async () => (await store.reads.deadLetters({ limit: 100 })).letters,
    async finish() {
      await ichido.idle()
      const books = checkBooks(await store.reads.ledger(), await store.reads.sweep())
      const wrong = books.lines.filter(line => !line.balanced)
      if (wrong.length > 0) throw new Error(`the books do not balance: ${JSON.stringify(wrong)}`)
    },
    [Symbol.asyncDispose]: () => ichido.stop(),
  }
}

export function write(tx: SqliteTx, n: number): void {
  tx.run('insert into effect (n) values (?)', n)
}
