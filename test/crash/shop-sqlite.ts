import { sqlite } from '../../src/stores/sqlite/store.ts'
import { shopOn } from './orders.ts'

export { effects } from './orders.ts'

export default shopOn(sqlite(process.env.ICHIDO_CRASH_DATABASE ?? ''), () => '?')
