import type { CopyOrigin, CustodyEntry, Identified, Verdict } from '../../contracts/deliveries.ts'
import { errorCodes } from '../../contracts/errors.ts'
import type { CertaintyLabel, FinishedOutcome, StoredError } from '../../contracts/outcome.ts'
import type { Envelope } from '../../contracts/transport.ts'
import {
  bumpRepeats,
  endIdentity,
  insertAttempt,
  insertDelivery,
  insertIdentity,
  openCase,
  selectFirstOfKey,
  selectIdentity,
  selectWatermark,
} from './queries.ts'
import { type IdentityRow, sameHash } from './rows.ts'
import { type TransactionWork, takeFrom } from './work.ts'

/** What is stored about a copy that does not run now. */
interface Place {
  readonly state: 'ready' | 'retry' | 'dead' | 'passed' | 'suspect' | 'version'
  readonly dueAt: number | null
  readonly error: StoredError | null
  readonly label: CertaintyLabel
  readonly attempts: number
  readonly durationMs: number
}

const ready: Place = { state: 'ready', dueAt: null, error: null, label: 'never started', attempts: 0, durationMs: 0 }

/** First attempts: the write lock stands for the locks of their keys. */
export function admitCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  copies: readonly Identified[],
  token: number,
): Verdict[] {
  return copies.map(copy => {
    const known = findKnown(work, origin, copy)
    if (known) return known
    if (!isProvable(work, origin, copy)) return storeUnprovable(work, origin, copy)
    if (origin.keyed && copy.key !== null && work.connection.get(selectFirstOfKey, origin.consumer, copy.key, 1)) {
      store(work, origin, copy, copy.id, ready)
      return 'stored'
    }
    const { delivery } = takeFrom(work, 0, 1)
    work.connection.run(
      insertIdentity,
      origin.consumer,
      origin.topic,
      copy.id,
      copy.hash,
      'done',
      work.now,
      work.now,
      token,
      delivery,
    )
    return 'run'
  })
}

export function concludeCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  copies: readonly { readonly copy: Identified; readonly outcome: FinishedOutcome }[],
): void {
  for (const { copy, outcome } of copies) {
    work.transitions.add(origin.consumer, 'accepted')
    work.transitions.add(origin.consumer, 'custody')
    work.transitions.add(origin.consumer, outcome)
    const identity = work.connection.get<IdentityRow>(
      selectIdentity,
      origin.consumer,
      origin.topic,
      copy.id,
    ) as IdentityRow
    work.connection.run(endIdentity, outcome, work.now, 1, identity.token, origin.consumer, origin.topic, copy.id)
  }
}

export function takeCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  entries: readonly CustodyEntry[],
  build: string | null,
): Verdict[] {
  return entries.map(entry => {
    const known = findKnown(work, origin, entry.copy)
    if (known) return known
    if (!isProvable(work, origin, entry.copy)) return storeUnprovable(work, origin, entry.copy)
    const state = entry.to === 'dead' && entry.onDead === 'pass' ? 'passed' : entry.to
    const dueAt = entry.to === 'retry' ? work.now + Math.round(entry.delayMs) : null
    const { error, label, attempts, durationMs } = entry
    store({ ...work, build }, origin, entry.copy, entry.copy.id, { state, dueAt, error, label, attempts, durationMs })
    return 'stored'
  })
}

export function takeUnreadableCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  copies: readonly { readonly copy: Envelope; readonly rawId: string; readonly error: StoredError }[],
): void {
  for (const { copy, rawId, error } of copies) {
    const known = work.connection.get<IdentityRow>(selectIdentity, origin.consumer, origin.topic, rawId)
    if (known) {
      repeat(work, origin, known)
      continue
    }
    const readable: Identified = {
      ...copy,
      id: rawId,
      key: null,
      type: copy.type ?? origin.topic,
      version: copy.version ?? 1,
      headersText: JSON.stringify({
        ...copy.headers,
        'ichido-raw-id': copy.id ?? '',
        'ichido-raw-key': copy.key ?? '',
      }),
      hash: new Uint8Array(16),
    }
    store(work, origin, readable, rawId, { ...ready, state: 'passed', error })
  }
}

/** A conflict with a committed row in any state: known. The same id with other contents becomes a dead letter of its own. */
function findKnown(work: TransactionWork, origin: CopyOrigin, copy: Identified): Verdict | null {
  const known = work.connection.get<IdentityRow>(selectIdentity, origin.consumer, origin.topic, copy.id)
  if (!known) return null
  if (sameHash(known.hash, copy.hash)) {
    repeat(work, origin, known)
    return 'duplicate'
  }
  const id = `${copy.id}~${Buffer.from(copy.hash).toString('hex').slice(0, 16)}`
  const stored = work.connection.get<IdentityRow>(selectIdentity, origin.consumer, origin.topic, id)
  if (stored) {
    repeat(work, origin, stored)
    return 'duplicate'
  }
  const message = `The id ${JSON.stringify(copy.id)} came with other contents than before. ${errorCodes.ID_REUSED.hint}`
  const error: StoredError = { class: 'format', code: 'ID_REUSED', message, stack: null }
  store(work, origin, copy, id, { ...ready, state: 'passed', error })
  return 'reused'
}

function repeat(work: TransactionWork, origin: CopyOrigin, known: IdentityRow): void {
  work.transitions.add(origin.consumer, 'repeats')
  if (known.state === 'open') work.connection.run(bumpRepeats, known.delivery_id)
}

/** Older than the newest completion that was purged: it may have been done, and nobody can tell any more. */
function isProvable(work: TransactionWork, origin: CopyOrigin, copy: Identified): boolean {
  const mark = work.connection.get<{ at: number }>(selectWatermark, origin.consumer, origin.topic)
  if (!mark) return true
  if (copy.sentAt === null) return origin.acceptUnknownAge
  return Math.max(copy.sentAt, copy.dueAt ?? 0) > mark.at + origin.marginMs
}

function storeUnprovable(work: TransactionWork, origin: CopyOrigin, copy: Identified): Verdict {
  const message = `The copy was sent before the oldest completion that is remembered. ${errorCodes.UNPROVABLE.hint}`
  const error: StoredError = { class: 'system', code: 'UNPROVABLE', message, stack: null }
  store(work, origin, copy, copy.id, { ...ready, state: 'dead', error, label: 'unknown' })
  return 'unprovable'
}

function store(work: TransactionWork, origin: CopyOrigin, copy: Identified, id: string, place: Place): void {
  const { connection, now, transitions, build } = work
  const { consumer, topic } = origin
  const { pos, delivery } = takeFrom(work, 1, 1)
  const dead = place.state === 'dead' || place.state === 'passed'
  const held = place.state === 'ready' ? 0 : 1
  const sentAt = copy.sentAt ?? now
  connection.run(insertIdentity, consumer, topic, id, copy.hash, 'open', now, null, null, delivery)
  const message = [consumer, topic, id, copy.type, copy.version, copy.key, pos] as const
  const rest = [place.state, place.dueAt, sentAt, copy.headersText, copy.body, held, null, place.attempts, now] as const
  connection.run(insertDelivery, delivery, ...message, ...rest)
  transitions.add(consumer, 'accepted')
  transitions.add(consumer, 'custody')
  if (place.attempts > 0) {
    const cause = [place.error?.class ?? null, place.error?.code ?? null, place.error?.message ?? null] as const
    const startedAt = now - Math.round(place.durationMs)
    connection.run(
      insertAttempt,
      consumer,
      topic,
      id,
      0,
      place.attempts,
      null,
      startedAt,
      now,
      dead ? 'dead' : 'retry',
      ...cause,
      build,
    )
  }
  if (place.state === 'retry') transitions.add(consumer, 'retried')
  work.woken.add(consumer)
  if (!dead) return
  transitions.add(consumer, 'dead')
  const error = place.error ?? { class: 'system', code: 'UNKNOWN', message: '', stack: null }
  const what = [error.class, error.code, error.message, error.stack, place.label, build] as const
  connection.run(openCase, consumer, topic, id, 0, ...what, place.attempts, now)
}
