import { DatabaseSync } from 'node:sqlite'
import { defineConsumer, defineIchido } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { orderPlaced } from './orders.ts'

// What the crash kit must find: the effect is written in `prepare`, on a connection of its own.

export { effects } from './orders.ts'

const path = process.env.ICHIDO_CRASH_DATABASE ?? ''
const store = sqlite(path)

const billing = defineConsumer({
  store,
  name: 'billing',
  messages: [orderPlaced],
  batch: 1,
  async prepare({ message }) {
    const database = new DatabaseSync(path, { timeout: 5_000 })
    database.prepare('insert into effect (id, key, sequence) values (?, ?, ?)').run(message.id, '', 0)
    database.close()
  },
  async handle() {},
})

export default defineIchido({ store, consumers: [billing] })
