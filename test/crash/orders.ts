import { z } from 'zod'
import type { SqlTx, Store } from '../../src/contracts/store.ts'
import { defineConsumer, defineIchido, defineMessage, PermanentError, TransientError } from '../../src/index.ts'

// A small shop for the crash kit: two keys, one order that fails at its first attempt and one that can never succeed.

export const orderPlaced = defineMessage({
  type: 'order.placed',
  version: 1,
  schema: z.object({ id: z.string(), sequence: z.number(), fails: z.enum(['never', 'once', 'always']) }),
})

export const messages = [
  ...['a1', 'a2', 'a3', 'a4', 'a5', 'a6'].map((id, sequence) =>
    order(id, 'a', sequence, id === 'a2' ? 'once' : 'never'),
  ),
  ...['b1', 'b2'].map((id, sequence) => order(id, 'b', sequence, 'never')),
  order('never', null, 0, 'always'),
]

function order(id: string, key: string | null, sequence: number, fails: 'never' | 'once' | 'always') {
  return { type: 'order.placed', input: { id, sequence, fails }, options: { id, key } }
}

/** `mark`: how the dialect writes its n-th parameter. */
export function shopOn<Tx extends SqlTx, Joined>(store: Store<Tx, Joined>, mark: (n: number) => string) {
  const insert = `insert into effect (id, key, sequence) values (${mark(1)}, ${mark(2)}, ${mark(3)})`
  const billing = defineConsumer({
    store,
    name: 'billing',
    messages: [orderPlaced],
    batch: 1,
    concurrency: 1,
    retry: { maxAttempts: 3, baseMs: 10, capMs: 20 },
    async prepare({ message }) {
      return message.data.id.toUpperCase()
    },
    async handle({ message, tx, attempt }) {
      await tx.run(insert, message.id, message.key ?? '', message.data.sequence)
      if (message.data.fails === 'always') throw new PermanentError('no such customer')
      if (message.data.fails === 'once' && attempt === 1) throw new TransientError('come again')
    },
  })
  return defineIchido({ store, consumers: [billing] })
}

interface Effect {
  readonly id: string
  readonly key: string
  readonly sequence: number
}

/** The effects, after a look whether each key had its messages in their order. */
export async function effects(tx: SqlTx): Promise<string[]> {
  const rows = await tx.all<Effect>('select id, key, sequence from effect order by n')
  for (const key of ['a', 'b']) {
    const sequences = rows.filter(row => row.key === key).map(row => Number(row.sequence))
    if (sequences.some((sequence, index) => sequence !== index)) throw new Error(`key ${key} ran as ${sequences}`)
  }
  return rows.map(row => row.id)
}
