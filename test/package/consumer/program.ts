import { strict as assert } from 'node:assert'
import { defineConsumer, defineIchido, defineMessage } from 'ichido'
import { sqlite } from 'ichido/sqlite'
import { z } from 'zod'

const orderPlaced = defineMessage({
  type: 'order.placed',
  schema: z.object({ orderId: z.string(), cents: z.number().int() }),
})

const handled = Promise.withResolvers<string>()

const billing = defineConsumer({
  name: 'billing',
  messages: [orderPlaced],
  async handle({ message }) {
    const cents: number = message.data.cents
    handled.resolve(`${message.type} ${message.data.orderId} ${cents}`)
  },
})

const ichido = defineIchido({ store: sqlite(':memory:'), messages: [orderPlaced], consumers: [billing] })
await ichido.start()
await ichido.send(orderPlaced, { orderId: '7', cents: 990 })
assert.equal(await handled.promise, 'order.placed 7 990')
await ichido.stop()
console.log('the program sent a message and handled it')
