import type {
  Claim,
  CopyOrigin,
  CustodyEntry,
  Deferral,
  Deliveries,
  Delivery,
  Finished,
  Identified,
  Resolution,
  Verdict,
} from '../../contracts/deliveries.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { Acceptance, OutgoingMessage } from '../../contracts/message.ts'
import type { FinishedOutcome, StoredError } from '../../contracts/outcome.ts'
import type { Envelope } from '../../contracts/transport.ts'
import { acceptMessages, closeAsReplaced } from './accept.ts'
import { admitCopies, concludeCopies, takeCopies, takeUnreadableCopies } from './custody.ts'
import * as q from './queries.ts'
import type { FullDeliveryRow, IdentityRow } from './rows.ts'
import { letFollowersGo, type TransactionWork } from './work.ts'

export class PostgresDeliveries implements Deliveries {
  readonly #work: TransactionWork

  constructor(work: TransactionWork) {
    this.#work = work
  }

  accept(messages: readonly OutgoingMessage[]): Promise<Acceptance[]> {
    return acceptMessages(this.#work, messages)
  }

  async claim(): Promise<Claim> {
    throw new IchidoError('STORE_ERROR', 'PostgreSQL does not chain claims: they are short commits of their own.')
  }

  async lock(deliveries: readonly Delivery[], epoch: number): Promise<number> {
    const refs = deliveries.map(delivery => delivery.ref)
    return (await this.#work.sql.get<{ mine: number }>(q.lockDeliveries, refs, epoch))?.mine as number
  }

  async finish(finished: readonly Finished[], epoch: number): Promise<void> {
    const consumer = finished[0]?.delivery.consumer
    if (consumer === undefined) return
    const column = <T>(read: (one: Finished) => T) => finished.map(read)
    const row = await this.#work.sql.get<{ ended: number }>(
      q.finishDeliveries,
      consumer,
      column(({ delivery }) => delivery.ref),
      column(({ delivery }) => delivery.topic),
      column(({ delivery }) => delivery.id),
      column(({ outcome }) => outcome),
      column(({ delivery }) => delivery.attempt),
      epoch,
      this.#work.now,
    )
    if (row?.ended !== finished.length) {
      throw new IchidoError(
        'FENCED',
        `${finished.length - (row?.ended ?? 0)} of ${finished.length} deliveries have another owner now.`,
      )
    }
    for (const { delivery, outcome, durationMs } of finished) {
      if (delivery.attempt > 1 || delivery.cycle > 0) await this.#recordAttempt(delivery, outcome, null, durationMs)
    }
    const keys = new Set(finished.filter(({ delivery }) => delivery.held).map(({ delivery }) => delivery.key))
    for (const key of [...keys].sort()) await letFollowersGo(this.#work, consumer, key)
  }

  async defer(deferrals: readonly Deferral[], epoch: number): Promise<ReadonlySet<number>> {
    const changed = new Set<number>()
    const sorted = [...deferrals].sort((a, b) => a.delivery.ref - b.delivery.ref)
    for (const deferral of sorted) if (await this.#deferOne(deferral, epoch)) changed.add(deferral.delivery.ref)
    return changed
  }

  async resolve(deliveries: readonly Delivery[], epoch: number): Promise<Resolution[]> {
    const resolutions: Resolution[] = []
    for (const { consumer, topic, id, ref } of deliveries) {
      const identity = await this.#work.sql.get<IdentityRow>(q.lockIdentity, consumer, topic, id)
      if (identity && identity.state !== 'open') resolutions.push(identity.token === epoch ? 'committed' : 'gone')
      else resolutions.push((await this.#work.sql.get(q.lockDelivery, ref, epoch)) ? 'mine' : 'gone')
    }
    return resolutions
  }

  async isDone(consumer: string, topic: string, id: string): Promise<boolean> {
    const seen = new Set<string>()
    let identity = await this.#work.sql.get<IdentityRow>(q.selectIdentity, consumer, topic, id)
    while (identity?.state === 'replaced' && identity.heir !== null && !seen.has(identity.heir)) {
      seen.add(identity.heir)
      identity = await this.#work.sql.get<IdentityRow>(q.selectIdentity, consumer, topic, identity.heir)
    }
    return identity?.state === 'done'
  }

  admit(origin: CopyOrigin, copies: readonly Identified[], token: number): Promise<Verdict[]> {
    return admitCopies(this.#work, origin, copies, token)
  }

  conclude(
    origin: CopyOrigin,
    copies: readonly { readonly copy: Identified; readonly outcome: FinishedOutcome }[],
  ): Promise<void> {
    return concludeCopies(this.#work, origin, copies)
  }

  takeCustody(origin: CopyOrigin, entries: readonly CustodyEntry[], build: string | null): Promise<Verdict[]> {
    return takeCopies({ ...this.#work, build }, origin, entries)
  }

  takeUnreadable(
    origin: CopyOrigin,
    copies: readonly { readonly copy: Envelope; readonly rawId: string; readonly error: StoredError }[],
  ): Promise<void> {
    return takeUnreadableCopies(this.#work, origin, copies)
  }

  async nextEpoch(): Promise<number> {
    return (await this.#work.sql.get<{ epoch: number }>(q.nextEpoch))?.epoch as number
  }

  async #deferOne(deferral: Deferral, epoch: number): Promise<boolean> {
    const { delivery, to, error, durationMs } = deferral
    const { sql, now, transitions } = this.#work
    if (to === 'released') return (await sql.run(q.releaseDelivery, delivery.ref, epoch)) > 0
    if (to === 'version') return (await sql.run(q.deferVersion, delivery.ref, epoch)) > 0
    if (to === 'retry') {
      if ((await sql.run(q.deferRetry, delivery.ref, epoch, deferral.delayMs, now)) === 0) return false
      transitions.add(delivery.consumer, 'retried')
      await this.#recordAttempt(delivery, 'retry', error, durationMs)
      return true
    }
    const passes = deferral.onDead === 'pass'
    if ((await sql.run(q.deferDead, delivery.ref, epoch, passes ? 'passed' : 'dead')) === 0) return false
    transitions.add(delivery.consumer, 'dead')
    await this.#recordAttempt(delivery, 'dead', error, durationMs)
    await this.#openCase(deferral)
    if (passes) await letFollowersGo(this.#work, delivery.consumer, delivery.key)
    else await this.#passPlaceOn(delivery)
    return true
  }

  async #recordAttempt(
    delivery: Delivery,
    outcome: string,
    error: StoredError | null,
    durationMs: number,
  ): Promise<void> {
    const { consumer, topic, id, cycle, attempt, plannedAt, claimedAt } = delivery
    const cause = [error?.class ?? null, error?.code ?? null, error?.message ?? null] as const
    const { sql, now, build } = this.#work
    await sql.run(
      q.insertAttempt,
      consumer,
      topic,
      id,
      cycle,
      attempt,
      plannedAt,
      claimedAt,
      durationMs,
      outcome,
      ...cause,
      now,
      build,
    )
  }

  async #openCase(deferral: Deferral): Promise<void> {
    const { consumer, topic, id, cycle, attempt } = deferral.delivery
    const error = deferral.error ?? { class: 'system', code: 'UNKNOWN', message: '', stack: null }
    const what = [error.class, error.code, error.message, error.stack, deferral.label, this.#work.build] as const
    await this.#work.sql.run(q.openCase, consumer, topic, id, cycle, ...what, attempt, this.#work.now)
  }

  /** A message that replaces this one was sent while it ran: now that it is dead, that one takes its place. */
  async #passPlaceOn(delivery: Delivery): Promise<void> {
    const { sql } = this.#work
    const heir = await sql.get<{ id: number; message_id: string; key: string | null }>(
      q.selectWaitingHeir,
      delivery.consumer,
      delivery.topic,
      delivery.id,
    )
    const row = heir ? await sql.get<FullDeliveryRow>(q.selectDelivery, delivery.ref) : undefined
    if (!heir || !row) return
    await closeAsReplaced(this.#work, row, heir.message_id)
    if (heir.key === delivery.key) await sql.run(q.inheritPlace, heir.id, row.pos)
    else await letFollowersGo(this.#work, delivery.consumer, delivery.key)
  }
}
