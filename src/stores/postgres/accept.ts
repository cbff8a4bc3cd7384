import { IchidoError } from '../../contracts/errors.ts'
import type { Acceptance, OutgoingMessage } from '../../contracts/message.ts'
import * as q from './queries.ts'
import type { FullDeliveryRow, IdentityRow } from './rows.ts'
import { letFollowersGo, type TransactionWork } from './work.ts'

interface AcceptRow {
  readonly fan_out: readonly number[]
  readonly subscribers: readonly number[]
  /** 0 no, 1 now, 2 before. */
  readonly kept: readonly number[]
  readonly reused: string | null
}

/** Fans messages out in one call; all or nothing, also inside the caller's own transaction. It counts what it does itself. */
export async function acceptMessages(
  work: TransactionWork,
  messages: readonly OutgoingMessage[],
): Promise<Acceptance[]> {
  if (messages.length === 0) return []
  const row = await insertAll(work, messages)
  if (row.reused !== null) throw reused(row.reused)
  for (const message of messages) if (message.replaces !== null) await takePlaces(work, message)
  const acceptances = messages.map(({ id }, index): Acceptance => {
    const fanOut = row.fan_out[index] as number
    const kept = row.kept[index] as number
    return { id, duplicate: fanOut === 0 && kept !== 1, kept: kept > 0, fanOut }
  })
  if (acceptances.some(acceptance => acceptance.fanOut > 0)) work.ring()
  return acceptances
}

async function insertAll(work: TransactionWork, messages: readonly OutgoingMessage[]): Promise<AcceptRow> {
  const column = <T>(read: (message: OutgoingMessage) => T) => messages.map(read)
  const time = (at: number | null) => (at === null ? null : new Date(at))
  const row = await work.sql.get<AcceptRow>(
    q.acceptMessages,
    column(m => m.topic),
    column(m => m.id),
    column(m => m.type),
    column(m => m.version),
    column(m => m.key),
    column(m => m.headers),
    column(m => Buffer.from(m.body.buffer, m.body.byteOffset, m.body.byteLength)),
    column(m => Buffer.from(m.hash)),
    column(m => time(m.sentAt)),
    column(m => time(m.dueAt)),
    column(m => m.delayMs),
    column(m => m.replaces),
    work.now,
  )
  return row as AcceptRow
}

function reused(id: string): IchidoError {
  return new IchidoError('ID_REUSED', `The id ${JSON.stringify(id)} was sent before with other contents.`)
}

/** The new message takes the place of the one that it replaces, at each consumer that got it. */
async function takePlaces(work: TransactionWork, message: OutgoingMessage): Promise<void> {
  const consumers = await work.sql.all<{ consumer: string }>(q.subscribersOf, message.topic)
  for (const { consumer } of consumers) {
    const own = await work.sql.get<IdentityRow>(q.selectIdentity, consumer, message.topic, message.id)
    if (own?.state !== 'open') continue
    const place = await closeReplaced(work, consumer, message.topic, message.replaces as string, message.id)
    if (!place) continue
    if (place.key === message.key && place.key !== null) await work.sql.run(q.inheritPlace, own.delivery_id, place.pos)
    else await letFollowersGo(work, consumer, place.key)
  }
}

/**
 * Closes the message that a new one replaces, when it is unfinished and nobody runs it. One that has not come yet is closed in advance, so
 * that it cannot run after its replacement. Follows a chain of edits to its last heir.
 */
async function closeReplaced(
  work: TransactionWork,
  consumer: string,
  topic: string,
  replaced: string,
  heir: string,
): Promise<{ pos: number; key: string | null } | null> {
  const { sql, transitions } = work
  let id = replaced
  let identity = await sql.get<IdentityRow>(q.selectIdentity, consumer, topic, id)
  while (identity?.state === 'replaced' && identity.heir !== null && identity.heir !== heir) {
    id = identity.heir
    identity = await sql.get<IdentityRow>(q.selectIdentity, consumer, topic, id)
  }
  if (!identity) {
    if ((await sql.run(q.insertIdentity, consumer, topic, id, Buffer.alloc(0), 'replaced', null, 0, work.now)) === 0) {
      // Somebody sent it this moment: the insert waited for him, so now it is there.
      return closeReplaced(work, consumer, topic, replaced, heir)
    }
    await sql.run(q.replaceIdentity, consumer, topic, id, heir, work.now)
    transitions.add(consumer, 'accepted')
    transitions.add(consumer, 'replaced')
    transitions.add('', 'fannedOut')
    return null
  }
  if (identity.state !== 'open') return null
  // Delivery rows come before identities in the order of locks, and whoever runs a delivery keeps its row locked: do not wait for that one.
  const seen = await sql.get<FullDeliveryRow>(q.selectDelivery, identity.delivery_id)
  if (!seen || seen.owner !== null) return null
  const row = await sql.get<FullDeliveryRow>(q.lockDeliveryRow, identity.delivery_id)
  if (!row || row.owner !== null) return null
  await closeAsReplaced(work, row, heir)
  return { pos: row.pos, key: row.state === 'passed' || row.state === 'delayed' ? null : row.key }
}

export async function closeAsReplaced(work: TransactionWork, row: FullDeliveryRow, heir: string): Promise<void> {
  await work.sql.run(q.deleteDelivery, row.id)
  await work.sql.run(q.replaceIdentity, row.consumer, row.topic, row.message_id, heir, work.now)
  await work.sql.run(q.closeCase, row.consumer, row.topic, row.message_id, 'replaced', work.now)
  work.transitions.add(row.consumer, 'replaced')
  if (row.state === 'dead' || row.state === 'passed') work.transitions.add(row.consumer, 'dead', -1)
}
