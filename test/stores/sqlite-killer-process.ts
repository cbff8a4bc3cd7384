import { start } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { createShop } from './sqlite-shop.ts'

// A worker whose handler kills its whole process at one message, always. It ends by itself when nothing is left to do.

export const KILLER = 13

const path = process.argv[2] ?? ''
const shop = createShop(
  sqlite(path),
  {
    handle({ message, tx, attempt }) {
      tx.run('insert into effect (n, attempt) values (?, ?)', message.data.n, attempt)
      if (message.data.n === KILLER) process.kill(process.pid, 'SIGKILL')
    },
  },
  { leaseMs: 600, beatMs: 100 },
)
if (path !== '') {
  const ichido = await start(shop.config)
  await ichido.idle()
  await ichido.stop()
}
