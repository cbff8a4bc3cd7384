import pg from 'pg'
import { postgres } from '../../src/stores/postgres/store.ts'
import { shopOn } from './orders.ts'

export { effects } from './orders.ts'

const pool = new pg.Pool({ connectionString: process.env.ICHIDO_CRASH_DATABASE })
pool.on('error', () => {})

export default shopOn(postgres(pool), n => `$${n}`)
