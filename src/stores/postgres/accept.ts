import { IchidoError } from '../../contracts/errors.ts'
import type { Acceptance, OutgoingMessage } from '../../contracts/message.ts'
import * as q from './queries.ts'
import { type FullDeliveryRow, type IdentityRow, sameHash } from './rows.ts'
import { letFollowersGo, type TransactionWork } from './work.ts'

interface AcceptRow {
  readonly fan_out: number
  readonly subscribers: number
  readonly newly_kept: boolean
  readonly clashes: boolean
}

/** Fans messages out in one statement; all or nothing, also inside the caller's own transaction. */
export async function acceptMessages(
  work: TransactionWork,
  messages: readonly OutgoingMessage[],
): Promise<Acceptance[]> {
  const unique = new Map<string, OutgoingMessage>()
  for (const message of messages) {
    const name = `${message.topic}\n${message.id}`
    const other = unique.get(name)
    if (other && !sameHash(other.hash, message.hash)) throw reused(message.id)
    if (!other) unique.set(name, message)
  }
  const first = [...unique.values()]
  const rows = await insertAll(work, first)
  for (const message of first) if (message.replaces !== null) await takePlaces(work, message)
  const known = new Map(first.map((message, index) => [message, rows[index] as AcceptRow]))
  const acceptances = messages.map((message): Acceptance => {
    const row = known.get(message)
    const kept = (row ?? known.get(unique.get(`${message.topic}\n${message.id}`) as OutgoingMessage))?.subscribers === 0
    const fanOut = row?.fan_out ?? 0
    return { id: message.id, duplicate: fanOut === 0 && !row?.newly_kept, kept, fanOut }
  })
  const count = (test: (acceptance: Acceptance) => boolean) => acceptances.filter(test).length
  work.transitions.add(
    '',
    'sent',
    count(acceptance => !acceptance.duplicate),
  )
  work.transitions.add(
    '',
    'resent',
    count(acceptance => acceptance.duplicate),
  )
  work.transitions.add(
    '',
    'kept',
    count(acceptance => acceptance.kept && !acceptance.duplicate),
  )
  work.transitions.add(
    '',
    'fannedOut',
    acceptances.reduce((sum, acceptance) => sum + acceptance.fanOut, 0),
  )
  if (acceptances.some(acceptance => acceptance.fanOut > 0)) await work.sql.run(q.ringBell)
  return acceptances
}

async function insertAll(work: TransactionWork, messages: readonly OutgoingMessage[]): Promise<AcceptRow[]> {
  const column = <T>(read: (message: OutgoingMessage) => T) => messages.map(read)
  const time = (at: number | null) => (at === null ? null : new Date(at))
  const rows = await work.sql.all<AcceptRow>(
    q.acceptMessages,
    column(m => m.id),
    column(m => m.topic),
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
  const clash = rows.findIndex(row => row.clashes)
  if (clash >= 0) throw reused((messages[clash] as OutgoingMessage).id)
  await refuseLateClash(work, messages, rows)
  return rows
}

/**
 * A sender that committed between our snapshot and our insert may have taken an id with other contents. What this call wrote for other
 * consumers must not stay then: the transaction is made unable to commit.
 */
async function refuseLateClash(
  work: TransactionWork,
  messages: readonly OutgoingMessage[],
  rows: readonly AcceptRow[],
): Promise<void> {
  const doubtful = messages.filter(
    (_, index) => (rows[index] as AcceptRow).fan_out < (rows[index] as AcceptRow).subscribers,
  )
  if (doubtful.length === 0) return
  const late = await work.sql.get<{ message_id: string }>(
    q.selectLateClash,
    doubtful.map(message => message.topic),
    doubtful.map(message => message.id),
    doubtful.map(message => Buffer.from(message.hash)),
  )
  if (!late) return
  await work.sql.client.query('select 1 / 0').catch(() => {})
  throw reused(late.message_id)
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
  let identity = await sql.get<IdentityRow>(q.lockIdentity, consumer, topic, id)
  while (identity?.state === 'replaced' && identity.heir !== null && identity.heir !== heir) {
    id = identity.heir
    identity = await sql.get<IdentityRow>(q.lockIdentity, consumer, topic, id)
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
