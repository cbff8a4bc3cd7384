import { IchidoError } from '../../contracts/errors.ts'
import type { Acceptance, OutgoingMessage } from '../../contracts/message.ts'
import type { DeliveryState } from '../../contracts/outcome.ts'
import {
  closeCase,
  deleteDelivery,
  hasKept,
  insertDelivery,
  insertIdentity,
  insertKept,
  replaceIdentity,
  selectDelivery,
  selectIdentity,
  selectKeptHash,
  subscribersOf,
} from './queries.ts'
import { type FullDeliveryRow, type IdentityRow, sameHash } from './rows.ts'
import { letFollowersGo, type TransactionWork, takeFrom } from './work.ts'

/** A message on its way to one consumer: from a send, or from the kept ones. */
export interface Arrival {
  readonly message: OutgoingMessage
  readonly sentAt: number
  readonly dueAt: number | null
  readonly pos: number
  readonly ref: number
}

const noHash = new Uint8Array(0)

/** Fans messages out; all or nothing, also inside the caller's own transaction. */
export function acceptMessages(work: TransactionWork, messages: readonly OutgoingMessage[]): Acceptance[] {
  return undoable(work, () => {
    const subscribers = new Map<string, string[]>()
    const keeping = new Set<string>()
    let deliveries = 0
    for (const { topic } of messages) {
      let names = subscribers.get(topic)
      if (!names) {
        names = work.connection.all<{ consumer: string }>(subscribersOf, topic).map(row => row.consumer)
        subscribers.set(topic, names)
        if (work.connection.get(hasKept, topic)) keeping.add(topic)
      }
      deliveries += Math.max(1, names.length)
    }
    const first = takeFrom(work, deliveries, deliveries)
    let used = 0
    const acceptances = messages.map(message => {
      const names = subscribers.get(message.topic) as string[]
      const at = { pos: first.pos + used, ref: first.delivery + used }
      used += Math.max(1, names.length)
      if (keeping.has(message.topic)) refuseReusedKept(work, message)
      return acceptOne(work, message, names, at)
    })
    for (const acceptance of acceptances) work.transitions.add('', acceptance.duplicate ? 'resent' : 'sent')
    return acceptances
  })
}

/** A message that waits to be adopted holds its id as well. */
function refuseReusedKept(work: TransactionWork, message: OutgoingMessage): void {
  const known = work.connection.get<{ hash: Uint8Array }>(selectKeptHash, message.topic, message.id)
  if (known && !sameHash(known.hash, message.hash)) throw reused(message)
}

/** What `attempt` wrote and counted is undone when it throws. */
function undoable<T>(work: TransactionWork, attempt: () => T): T {
  const mark = work.transitions.mark()
  try {
    return work.connection.undoable('ichido_accept', attempt)
  } catch (error) {
    work.transitions.undoTo(mark)
    throw error
  }
}

function acceptOne(
  work: TransactionWork,
  message: OutgoingMessage,
  consumers: readonly string[],
  at: { pos: number; ref: number },
): Acceptance {
  const sentAt = message.sentAt ?? work.now
  const dueAt = message.dueAt ?? (message.delayMs === null ? null : work.now + message.delayMs)
  if (consumers.length === 0) return keep(work, message, sentAt, dueAt, at.pos)
  let fanOut = 0
  for (const [index, consumer] of consumers.entries()) {
    const arrival = { message, sentAt, dueAt, pos: at.pos + index, ref: at.ref + index }
    if (deliver(work, consumer, arrival)) fanOut++
  }
  work.transitions.add('', 'fannedOut', fanOut)
  return { id: message.id, duplicate: fanOut === 0, kept: false, fanOut }
}

function keep(
  work: TransactionWork,
  message: OutgoingMessage,
  sentAt: number,
  dueAt: number | null,
  pos: number,
): Acceptance {
  const { topic, id, type, version, key, headers, body, hash, replaces } = message
  const added = work.connection.run(
    insertKept,
    topic,
    id,
    type,
    version,
    key,
    pos,
    dueAt,
    sentAt,
    headers,
    body,
    hash,
    replaces,
  )
  if (added === 0) {
    refuseReusedKept(work, message)
    return { id, duplicate: true, kept: true, fanOut: 0 }
  }
  work.transitions.add('', 'kept')
  return { id, duplicate: false, kept: true, fanOut: 0 }
}

/** The identity decides: whoever inserts it first wins. Returns false for a duplicate. */
export function deliver(work: TransactionWork, consumer: string, arrival: Arrival): boolean {
  const { message, sentAt, dueAt, ref } = arrival
  const { topic, id, type, version, key, headers, body, hash, replaces } = message
  const { connection, now, transitions } = work
  if (connection.run(insertIdentity, consumer, topic, id, hash, 'open', now, null, null, ref) === 0) {
    const known = connection.get<IdentityRow>(selectIdentity, consumer, topic, id)
    if (known && !sameHash(known.hash, hash)) throw reused(message)
    return false
  }
  const delayed = dueAt !== null && dueAt > now
  const state: DeliveryState = delayed ? 'delayed' : 'ready'
  const place = replaces === null ? null : takePlace(work, consumer, topic, replaces, id)
  const inherits = place !== null && place.key === key
  if (place && !inherits) letFollowersGo(work, consumer, place.key)
  const pos = inherits ? place.pos : arrival.pos
  const held = inherits ? 1 : 0
  const planned = delayed ? dueAt : null
  connection.run(
    insertDelivery,
    ref,
    consumer,
    topic,
    id,
    type,
    version,
    key,
    pos,
    state,
    planned,
    sentAt,
    headers,
    body,
    held,
    replaces,
    0,
    null,
  )
  transitions.add(consumer, 'accepted')
  if (!delayed) work.woken.add(consumer)
  return true
}

/**
 * Closes the message that a new one replaces, when it is unfinished and nobody runs it, and hands its place on. One that has not come yet is
 * closed in advance, so that it cannot run after its replacement. Follows a chain of edits to its last heir.
 */
function takePlace(
  work: TransactionWork,
  consumer: string,
  topic: string,
  replaced: string,
  heir: string,
): { pos: number; key: string | null } | null {
  const { connection, now, transitions } = work
  let id = replaced
  let identity = connection.get<IdentityRow>(selectIdentity, consumer, topic, id)
  while (identity?.state === 'replaced' && identity.heir !== null && identity.heir !== heir) {
    id = identity.heir
    identity = connection.get<IdentityRow>(selectIdentity, consumer, topic, id)
  }
  if (!identity) {
    connection.run(insertIdentity, consumer, topic, id, noHash, 'replaced', now, now, null, 0)
    connection.run(replaceIdentity, now, heir, consumer, topic, id)
    transitions.add(consumer, 'accepted')
    transitions.add(consumer, 'replaced')
    transitions.add('', 'fannedOut')
    return null
  }
  if (identity.state !== 'open') return null
  const row = connection.get<FullDeliveryRow>(selectDelivery, identity.delivery_id)
  if (!row || row.owner !== null) return null
  closeAsReplaced(work, row, heir)
  return { pos: row.pos, key: row.state === 'passed' || row.state === 'delayed' ? null : row.key }
}

export function closeAsReplaced(work: TransactionWork, row: FullDeliveryRow, heir: string): void {
  const { connection, now, transitions } = work
  connection.run(deleteDelivery, row.id)
  connection.run(replaceIdentity, now, heir, row.consumer, row.topic, row.message_id)
  connection.run(closeCase, now, 'replaced', row.consumer, row.topic, row.message_id)
  transitions.add(row.consumer, 'replaced')
  if (row.state === 'dead' || row.state === 'passed') transitions.add(row.consumer, 'dead', -1)
}

function reused(message: OutgoingMessage): IchidoError {
  return new IchidoError(
    'ID_REUSED',
    `The id ${JSON.stringify(message.id)} on topic ${message.topic} was sent before with other contents.`,
  )
}
