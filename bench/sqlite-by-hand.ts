/** The limit: what the same statements cost when somebody writes them by hand, without parsing, timeouts, retries or order by key. */
import { readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'

const body = Buffer.from(JSON.stringify({ orderId: 'o1', amount: 1, note: 'x'.repeat(150) }))
const hash = Buffer.alloc(16)
const idOf = (n: number) => `018f6d2e-7c00-7000-8000-${String(n).padStart(12, '0')}`

function open(path: string): DatabaseSync {
  const database = new DatabaseSync(path)
  database.exec(
    'pragma journal_mode = wal; pragma synchronous = full; pragma temp_store = memory; pragma cache_size = -16000',
  )
  return database
}

/** Claim chained into the settle, one business insert for each message. Messages per second. */
export async function byHand(path: string, messages: number, batch: number): Promise<number> {
  const database = open(path)
  database.exec(readFileSync(new URL('../src/stores/sqlite/migrations/001-core.sql', import.meta.url), 'utf8'))
  database.exec('create table business (id text, amount real)')
  load(database, messages)
  const select =
    database.prepare(`select id, message_id, body, attempts, key, pos from ichido_delivery indexed by ichido_delivery_ready
    where consumer = 'billing' and state = 'ready' and pos >= 0 and owner is null order by pos limit ${batch}`)
  const take = database.prepare(
    'update ichido_delivery set attempts = attempts + 1, owner = ?, epoch = ?, claimed_at = ? where id = ?',
  )
  const end = database.prepare('delete from ichido_delivery where id = ? and epoch = ? and owner is not null')
  const finish = database.prepare(`update ichido_identity set state = 'done', finished_at = ?, attempts = ?, token = ?
    where consumer = 'billing' and topic = 'order.placed' and message_id = ?`)
  const effect = database.prepare('insert into business (id, amount) values (?, ?)')
  let epoch = 0
  const claim = () => {
    epoch++
    const rows = select.all() as unknown as { id: number; message_id: string }[]
    for (const row of rows) take.run('me', epoch, 1, row.id)
    return rows
  }
  const began = performance.now()
  database.exec('begin immediate')
  let rows = claim()
  database.exec('commit')
  while (rows.length > 0) {
    const mine = epoch
    database.exec('begin immediate')
    for (const row of rows) {
      effect.run(row.message_id, 1)
      end.run(row.id, mine)
      finish.run(1, 1, mine, row.message_id)
    }
    rows = claim()
    database.exec('commit')
  }
  const seconds = (performance.now() - began) / 1_000
  database.close()
  return messages / seconds
}

function load(database: DatabaseSync, messages: number): void {
  const identity =
    database.prepare(`insert into ichido_identity (consumer, topic, message_id, hash, state, accepted_at, delivery_id)
    values ('billing', 'order.placed', ?, ?, 'open', 1, ?)`)
  const delivery =
    database.prepare(`insert into ichido_delivery (id, consumer, topic, message_id, type, version, key, pos, state, sent_at, headers, body)
    values (?, 'billing', 'order.placed', ?, 'order.placed', 1, null, ?, 'ready', 1, '{}', ?)`)
  database.exec('begin immediate')
  for (let n = 0; n < messages; n++) {
    identity.run(idOf(n), hash, n)
    delivery.run(n, idOf(n), n, body)
  }
  database.exec('commit')
}

/** Rows into a plain table, 1,000 per transaction. Rows per second. */
export async function rawInserts(path: string, rows: number): Promise<number> {
  const database = open(path)
  database.exec('create table raw (id integer primary key, message_id text not null, body blob not null)')
  const insert = database.prepare('insert into raw values (?, ?, ?)')
  const began = performance.now()
  for (let from = 0; from < rows; from += 1_000) {
    database.exec('begin immediate')
    for (let n = from; n < from + 1_000; n++) insert.run(n, idOf(n), body)
    database.exec('commit')
  }
  const seconds = (performance.now() - began) / 1_000
  database.close()
  return rows / seconds
}
