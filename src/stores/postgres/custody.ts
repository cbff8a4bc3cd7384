import type { CopyOrigin, CustodyEntry, Identified, Verdict } from '../../contracts/deliveries.ts'
import { errorCodes } from '../../contracts/errors.ts'
import type { CertaintyLabel, FinishedOutcome, StoredError } from '../../contracts/outcome.ts'
import type { Envelope } from '../../contracts/transport.ts'
import * as q from './queries.ts'
import { type IdentityRow, sameHash } from './rows.ts'
import type { TransactionWork } from './work.ts'

/** What is stored about a copy that does not run now. */
interface Place {
  readonly state: 'ready' | 'retry' | 'dead' | 'passed' | 'suspect' | 'version'
  readonly delayMs: number | null
  readonly error: StoredError | null
  readonly label: CertaintyLabel
  readonly attempts: number
  readonly durationMs: number
}

const ready: Place = { state: 'ready', delayMs: null, error: null, label: 'never started', attempts: 0, durationMs: 0 }

/** Attempts and custody of one key exclude each other: whoever comes second sees what the first has committed. */
async function lockKeys(work: TransactionWork, origin: CopyOrigin, copies: readonly Identified[]): Promise<void> {
  const keys = [...new Set(copies.map(copy => copy.key).filter(key => key !== null))]
  if (origin.keyed && keys.length > 0) await work.sql.run(q.lockKeys, origin.consumer, keys)
}

export async function admitCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  copies: readonly Identified[],
  token: number,
): Promise<Verdict[]> {
  await lockKeys(work, origin, copies)
  const verdicts: Verdict[] = []
  for (const copy of copies) verdicts.push(await admitOne(work, origin, copy, token))
  return verdicts
}

/** The insert decides: it waits for whoever holds the same identity, and a conflict means that he has committed. */
async function admitOne(work: TransactionWork, origin: CopyOrigin, copy: Identified, token: number): Promise<Verdict> {
  const known = await findKnown(work, origin, copy)
  if (known) return known
  if (!(await isProvable(work, origin, copy))) return storeUnprovable(work, origin, copy)
  if (origin.keyed && copy.key !== null && (await work.sql.get(q.selectFirstOfKey, origin.consumer, copy.key))) {
    return (await store(work, origin, copy, copy.id, ready)) ? 'stored' : admitOne(work, origin, copy, token)
  }
  const inserted = await work.sql.run(
    q.insertIdentity,
    origin.consumer,
    origin.topic,
    copy.id,
    Buffer.from(copy.hash),
    'done',
    token,
    0,
    work.now,
  )
  return inserted > 0 ? 'run' : admitOne(work, origin, copy, token)
}

export async function concludeCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  copies: readonly { readonly copy: Identified; readonly outcome: FinishedOutcome }[],
): Promise<void> {
  for (const { copy, outcome } of copies) {
    work.transitions.add(origin.consumer, 'accepted')
    work.transitions.add(origin.consumer, 'custody')
    work.transitions.add(origin.consumer, outcome)
    await work.sql.run(q.endIdentity, origin.consumer, origin.topic, copy.id, outcome, 1, work.now)
  }
}

export async function takeCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  entries: readonly CustodyEntry[],
): Promise<Verdict[]> {
  await lockKeys(
    work,
    origin,
    entries.map(entry => entry.copy),
  )
  const verdicts: Verdict[] = []
  for (const entry of entries) verdicts.push(await takeOne(work, origin, entry))
  return verdicts
}

async function takeOne(work: TransactionWork, origin: CopyOrigin, entry: CustodyEntry): Promise<Verdict> {
  const known = await findKnown(work, origin, entry.copy)
  if (known) return known
  if (!(await isProvable(work, origin, entry.copy))) return storeUnprovable(work, origin, entry.copy)
  const state = entry.to === 'dead' && entry.onDead === 'pass' ? 'passed' : entry.to
  const { error, label, attempts, durationMs } = entry
  const place: Place = {
    state,
    delayMs: entry.to === 'retry' ? entry.delayMs : null,
    error,
    label,
    attempts,
    durationMs,
  }
  return (await store(work, origin, entry.copy, entry.copy.id, place)) ? 'stored' : takeOne(work, origin, entry)
}

export async function takeUnreadableCopies(
  work: TransactionWork,
  origin: CopyOrigin,
  copies: readonly { readonly copy: Envelope; readonly rawId: string; readonly error: StoredError }[],
): Promise<void> {
  for (const { copy, rawId, error } of copies) {
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
    const known = await work.sql.get<IdentityRow>(q.selectIdentity, origin.consumer, origin.topic, rawId)
    if (known) await repeat(work, origin, known)
    else if (!(await store(work, origin, readable, rawId, { ...ready, state: 'passed', error }))) {
      const late = await work.sql.get<IdentityRow>(q.selectIdentity, origin.consumer, origin.topic, rawId)
      if (late) await repeat(work, origin, late)
    }
  }
}

/** A conflict with a committed row in any state: known. The same id with other contents becomes a dead letter of its own. */
async function findKnown(work: TransactionWork, origin: CopyOrigin, copy: Identified): Promise<Verdict | null> {
  const known = await work.sql.get<IdentityRow>(q.selectIdentity, origin.consumer, origin.topic, copy.id)
  if (!known) return null
  if (sameHash(known.hash, copy.hash)) {
    await repeat(work, origin, known)
    return 'duplicate'
  }
  const id = `${copy.id}~${Buffer.from(copy.hash).toString('hex').slice(0, 16)}`
  const message = `The id ${JSON.stringify(copy.id)} came with other contents than before. ${errorCodes.ID_REUSED.hint}`
  const error: StoredError = { class: 'format', code: 'ID_REUSED', message, stack: null }
  if (await store(work, origin, copy, id, { ...ready, state: 'passed', error })) return 'reused'
  const stored = await work.sql.get<IdentityRow>(q.selectIdentity, origin.consumer, origin.topic, id)
  if (stored) await repeat(work, origin, stored)
  return 'duplicate'
}

async function repeat(work: TransactionWork, origin: CopyOrigin, known: IdentityRow): Promise<void> {
  work.transitions.add(origin.consumer, 'repeats')
  if (known.state === 'open') await work.sql.run(q.bumpRepeats, known.delivery_id)
}

/** Older than the newest completion that was purged: it may have been done, and nobody can tell any more. Read in the inserting transaction. */
async function isProvable(work: TransactionWork, origin: CopyOrigin, copy: Identified): Promise<boolean> {
  const mark = await work.sql.get<{ at: number }>(q.selectWatermark, origin.consumer, origin.topic)
  if (!mark) return true
  if (copy.sentAt === null) return origin.acceptUnknownAge
  return Math.max(copy.sentAt, copy.dueAt ?? 0) > mark.at + origin.marginMs
}

async function storeUnprovable(work: TransactionWork, origin: CopyOrigin, copy: Identified): Promise<Verdict> {
  const message = `The copy was sent before the oldest completion that is remembered. ${errorCodes.UNPROVABLE.hint}`
  const error: StoredError = { class: 'system', code: 'UNPROVABLE', message, stack: null }
  await store(work, origin, copy, copy.id, { ...ready, state: 'dead', error, label: 'unknown' })
  return 'unprovable'
}

/** Returns false when somebody else has stored the identity in the meantime. */
async function store(
  work: TransactionWork,
  origin: CopyOrigin,
  copy: Identified,
  id: string,
  place: Place,
): Promise<boolean> {
  const { sql, now, transitions, build } = work
  const { consumer, topic } = origin
  const delivery = (await sql.get<{ id: number }>(q.nextDeliveryId))?.id as number
  if ((await sql.run(q.insertIdentity, consumer, topic, id, Buffer.from(copy.hash), 'open', null, delivery, now)) === 0)
    return false
  const dead = place.state === 'dead' || place.state === 'passed'
  const held = place.state !== 'ready'
  const body = Buffer.from(copy.body)
  const message = [delivery, consumer, topic, id, copy.type, copy.version, copy.key, null, place.state] as const
  await sql.run(
    q.insertDelivery,
    ...message,
    null,
    copy.sentAt,
    copy.headersText,
    body,
    held,
    null,
    place.attempts,
    now,
  )
  if (place.delayMs !== null) await sql.run(q.delayDelivery, delivery, place.delayMs, now)
  transitions.add(consumer, 'accepted')
  transitions.add(consumer, 'custody')
  work.ring()
  if (place.attempts > 0) {
    const cause = [place.error?.class ?? null, place.error?.code ?? null, place.error?.message ?? null] as const
    const outcome = dead ? 'dead' : 'retry'
    await sql.run(
      q.insertAttempt,
      consumer,
      topic,
      id,
      0,
      place.attempts,
      null,
      null,
      place.durationMs,
      outcome,
      ...cause,
      now,
      build,
    )
  }
  if (place.state === 'retry') transitions.add(consumer, 'retried')
  if (dead) {
    transitions.add(consumer, 'dead')
    const error = place.error ?? { class: 'system', code: 'UNKNOWN', message: '', stack: null }
    const what = [error.class, error.code, error.message, error.stack, place.label, build] as const
    await sql.run(q.openCase, consumer, topic, id, 0, ...what, place.attempts, now)
  }
  return true
}
