import { z } from 'zod'
import {
  defineConsumer,
  defineIchido,
  defineMessage,
  type IchidoConfig,
  PermanentError,
  start,
} from '../../src/index.ts'
import { type SqliteTx, sqlite } from '../../src/stores/sqlite/store.ts'

// A small shop whose messages meet every fate that the command line shows.

export const orderPlaced = defineMessage({
  type: 'order.placed',
  schema: z.object({ orderId: z.string(), amount: z.number(), customer: z.string() }),
  key: order => order.customer,
})
const newsWritten = defineMessage({ type: 'news.written', schema: z.object({ title: z.string() }) })

export function defineShop(path: string): IchidoConfig<SqliteTx> {
  const store = sqlite(path)
  const billing = defineConsumer({
    store,
    name: 'billing',
    messages: [orderPlaced],
    retry: { maxAttempts: 3, baseMs: 2, capMs: 4 },
    handle({ message, attempt }) {
      const { amount, customer } = message.data
      if (customer === 'nobody') throw new PermanentError('nobody has no account', { code: 'NO_ACCOUNT' })
      if (customer === 'mallory')
        throw new PermanentError('\u001b[2Jall is well\u202e\u0007\nreally', { code: 'HOSTILE' })
      if (amount > 1_000) throw new Error('connect ECONNREFUSED 192.0.2.7:443')
      if (amount > 500 && attempt < 3) throw new Error('the bank is busy')
    },
  })
  const shipping = defineConsumer({ store, name: 'shipping', messages: [orderPlaced], handle() {} })
  return defineIchido({
    store,
    consumers: [billing, shipping],
    messages: [newsWritten],
    pollMs: 20,
    build: 'v7',
  }) as unknown as IchidoConfig<SqliteTx>
}

/** A day of trade: one order after the other, until nothing is due. */
export async function trade(path: string): Promise<void> {
  await using ichido = await start(defineShop(path))
  const place = (orderId: string, amount: number, customer: string, delayMs?: number) =>
    ichido.send(orderPlaced, { orderId, amount, customer }, { id: orderId, ...(delayMs && { delayMs }) })
  await place('order-1', 20, 'alice')
  await place('order-2', 30, 'nobody')
  await place('order-3', 700, 'bob')
  await place('order-4', 2_000, 'carol')
  await place('order-5', 40, 'nobody')
  await place('order-6', 50, 'dave', 3_600_000)
  await ichido.send(newsWritten, { title: 'We are open' }, { id: 'news-1' })
  await ichido.idle()
}
