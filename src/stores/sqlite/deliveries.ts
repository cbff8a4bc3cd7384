import type {
  Claim,
  ClaimRequest,
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
import { claimDeliveries, epochOf } from './claim.ts'
import { admitCopies, concludeCopies, takeCopies, takeUnreadableCopies } from './custody.ts'
import {
  deferDead,
  deferRetry,
  deferVersion,
  endIdentity,
  finishDelivery,
  inheritPlace,
  insertAttempt,
  lockDelivery,
  openCase,
  releaseDelivery,
  selectDelivery,
  selectIdentity,
  selectWaitingHeir,
} from './queries.ts'
import type { FullDeliveryRow, IdentityRow } from './rows.ts'
import { letFollowersGo, type TransactionWork } from './work.ts'

export class SqliteDeliveries implements Deliveries {
  readonly #work: TransactionWork

  constructor(work: TransactionWork) {
    this.#work = work
  }

  accept(messages: readonly OutgoingMessage[]): Acceptance[] {
    return acceptMessages(this.#work, messages)
  }

  claim(request: ClaimRequest): Claim {
    return claimDeliveries(this.#work, request)
  }

  /** The write lock of BEGIN IMMEDIATE already excludes everybody: this only compares. */
  lock(deliveries: readonly Delivery[], epoch: number): number {
    let mine = 0
    for (const delivery of deliveries) if (this.#work.connection.get(lockDelivery, delivery.ref, epoch)) mine++
    return mine
  }

  finish(finished: readonly Finished[], epoch: number): void {
    const { connection, now, transitions } = this.#work
    const released = new Set<string>()
    for (const { delivery, outcome, durationMs } of finished) {
      const { consumer, topic, id, attempt } = delivery
      if (connection.run(finishDelivery, delivery.ref, epoch) === 0) {
        throw new IchidoError('FENCED', `The delivery of ${id} to ${consumer} has another owner now.`)
      }
      connection.run(endIdentity, outcome, now, attempt, epoch, consumer, topic, id)
      transitions.add(consumer, outcome)
      if (attempt > 1 || delivery.cycle > 0) this.#recordAttempt(delivery, outcome, null, durationMs)
      if (delivery.held && delivery.key !== null) released.add(delivery.key)
    }
    const consumer = finished[0]?.delivery.consumer
    if (consumer !== undefined) for (const key of released) letFollowersGo(this.#work, consumer, key)
  }

  defer(deferrals: readonly Deferral[], epoch: number): ReadonlySet<number> {
    const changed = new Set<number>()
    for (const deferral of deferrals) if (this.#deferOne(deferral, epoch)) changed.add(deferral.delivery.ref)
    return changed
  }

  resolve(deliveries: readonly Delivery[], epoch: number): Resolution[] {
    return deliveries.map(({ consumer, topic, id, ref }) => {
      const identity = this.#work.connection.get<IdentityRow>(selectIdentity, consumer, topic, id)
      if (identity && identity.state !== 'open') return identity.token === epoch ? 'committed' : 'gone'
      return this.#work.connection.get(lockDelivery, ref, epoch) ? 'mine' : 'gone'
    })
  }

  isDone(consumer: string, topic: string, id: string): boolean {
    const seen = new Set<string>()
    let identity = this.#work.connection.get<IdentityRow>(selectIdentity, consumer, topic, id)
    while (identity?.state === 'replaced' && identity.heir !== null && !seen.has(identity.heir)) {
      seen.add(identity.heir)
      identity = this.#work.connection.get<IdentityRow>(selectIdentity, consumer, topic, identity.heir)
    }
    return identity?.state === 'done'
  }

  admit(origin: CopyOrigin, copies: readonly Identified[], token: number): Verdict[] {
    return admitCopies(this.#work, origin, copies, token)
  }

  conclude(
    origin: CopyOrigin,
    copies: readonly { readonly copy: Identified; readonly outcome: FinishedOutcome }[],
  ): void {
    concludeCopies(this.#work, origin, copies)
  }

  takeCustody(origin: CopyOrigin, entries: readonly CustodyEntry[], build: string | null): Verdict[] {
    return takeCopies(this.#work, origin, entries, build)
  }

  takeUnreadable(
    origin: CopyOrigin,
    copies: readonly { readonly copy: Envelope; readonly rawId: string; readonly error: StoredError }[],
  ): void {
    takeUnreadableCopies(this.#work, origin, copies)
  }

  nextEpoch(): number {
    return epochOf(this.#work.connection)
  }

  #deferOne(deferral: Deferral, epoch: number): boolean {
    const { delivery, to, error, durationMs } = deferral
    const { connection, now, transitions, woken } = this.#work
    if (to === 'released') {
      if (connection.run(releaseDelivery, delivery.ref, epoch) === 0) return false
      woken.add(delivery.consumer)
      return true
    }
    if (to === 'version') return connection.run(deferVersion, delivery.ref, epoch) > 0
    if (to === 'retry') {
      if (connection.run(deferRetry, now + Math.round(deferral.delayMs), delivery.ref, epoch) === 0) return false
      transitions.add(delivery.consumer, 'retried')
      this.#recordAttempt(delivery, 'retry', error, durationMs)
      // Whoever sleeps must learn that something is due earlier than he thought.
      woken.add(delivery.consumer)
      return true
    }
    const passes = deferral.onDead === 'pass'
    if (connection.run(deferDead, passes ? 'passed' : 'dead', delivery.ref, epoch) === 0) return false
    transitions.add(delivery.consumer, 'dead')
    this.#recordAttempt(delivery, 'dead', error, durationMs)
    this.#openCase(deferral)
    if (passes) letFollowersGo(this.#work, delivery.consumer, delivery.key)
    else this.#passPlaceOn(delivery)
    return true
  }

  #recordAttempt(delivery: Delivery, outcome: string, error: StoredError | null, durationMs: number): void {
    const { consumer, topic, id, cycle, attempt, plannedAt, claimedAt } = delivery
    const { connection, now, build } = this.#work
    // The handler started this long before the end; a batch may have held the delivery for a while before that.
    const startedAt = Math.max(claimedAt, now - Math.round(durationMs))
    const cause = [error?.class ?? null, error?.code ?? null, error?.message ?? null] as const
    connection.run(
      insertAttempt,
      consumer,
      topic,
      id,
      cycle,
      attempt,
      plannedAt,
      startedAt,
      now,
      outcome,
      ...cause,
      build,
    )
  }

  #openCase(deferral: Deferral): void {
    const { consumer, topic, id, cycle, attempt } = deferral.delivery
    const { connection, now, build } = this.#work
    const error = deferral.error ?? { class: 'system', code: 'UNKNOWN', message: '', stack: null }
    const what = [error.class, error.code, error.message, error.stack, deferral.label, build] as const
    connection.run(openCase, consumer, topic, id, cycle, ...what, attempt, now)
  }

  /** A message that replaces this one was sent while it ran: now that it is dead, that one takes its place. */
  #passPlaceOn(delivery: Delivery): void {
    const { connection } = this.#work
    const heir = connection.get<{ id: number; message_id: string; key: string | null }>(
      selectWaitingHeir,
      delivery.consumer,
      delivery.topic,
      delivery.id,
    )
    if (!heir) return
    const row = connection.get<FullDeliveryRow>(selectDelivery, delivery.ref)
    if (!row) return
    closeAsReplaced(this.#work, row, heir.message_id)
    if (heir.key === delivery.key) connection.run(inheritPlace, row.pos, heir.id)
    else letFollowersGo(this.#work, delivery.consumer, delivery.key)
    this.#work.woken.add(delivery.consumer)
  }
}
