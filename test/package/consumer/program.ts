import { strict as assert } from 'node:assert'
import { defineConsumer, defineIchido, defineMessage, start } from 'ichido'
import { sqlite } from 'ichido/sqlite'
import { z } from 'zod'

const store = sqlite('app.db')

const orderPlaced = defineMessage({
  type: 'order.placed',
  schema: z.object({ orderId: z.string(), cents: z.number().int() }),
  key: order => order.orderId,
})

const handled = Promise.withResolvers<string>()

const billing = defineConsumer({
  store,
  name: 'billing',
  messages: [orderPlaced],
  async prepare({ message }) {
    return message.data.cents * 2
  },
  async handle({ message, prepared, tx }) {
    const doubled: number = prepared
    const cents: number = message.data.cents
    const row = tx.get<{ one: number }>('select 1 as one')
    handled.resolve(`${message.type} ${message.data.orderId} ${cents} ${doubled} ${row?.one}`)
  },
})

await using ichido = await start(defineIchido({ store, consumers: [billing] }))
await ichido.send(orderPlaced, { orderId: '7', cents: 990 })
assert.equal(await handled.promise, 'order.placed 7 990 1980 1')
await ichido.idle()
console.log('the program sent a message and handled it')
