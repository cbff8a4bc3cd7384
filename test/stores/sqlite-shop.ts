import { z } from 'zod'
import type { ConsumerOptions } from '../../src/consume/consumer.ts'
import { defineConsumer, defineIchido, defineMessage } from '../../src/index.ts'
import type { IchidoOptions } from '../../src/runtime/config.ts'
import type { SqliteStore, SqliteTx } from '../../src/stores/sqlite/store.ts'

export const note = defineMessage({ type: 'note', schema: z.object({ n: z.number(), text: z.string().optional() }) })

/** One consumer on a real file, for tests of what real files and processes do. */
export function createShop(
  store: SqliteStore,
  consumer: Partial<ConsumerOptions<typeof note, SqliteTx, unknown>> = {},
  options: Partial<IchidoOptions<SqliteTx, unknown>> = {},
) {
  const billing = defineConsumer({ store, name: 'billing', messages: [note], handle() {}, ...consumer })
  return { config: defineIchido({ store, consumers: [billing], pollMs: 20, ...options } as never) as never as Config }
}

type Config = ReturnType<typeof defineIchido<SqliteTx, Parameters<SqliteStore['join']>[0]>>
