import type { Actor, Cases, DeliveryName, EditedMessage } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import { closeAsReplaced } from './accept.ts'
import {
  closeCase,
  deleteDelivery,
  discardIdentity,
  discardKept,
  insertAudit,
  insertDelivery,
  insertIdentity,
  passDelivery,
  redriveDelivery,
  selectDelivery,
  selectIdentity,
} from './queries.ts'
import type { FullDeliveryRow, IdentityRow } from './rows.ts'
import { letFollowersGo, type TransactionWork, takeFrom } from './work.ts'

export class SqliteCases implements Cases {
  readonly #work: TransactionWork

  constructor(work: TransactionWork) {
    this.#work = work
  }

  redrive(name: DeliveryName, by: Actor): void {
    const row = this.#findDead(name)
    if (!this.#canRun(row)) {
      throw new IchidoError('CONFLICT', `${name.id} can never run: edit it, or discard it.`, { retryable: false })
    }
    const { connection, now, transitions, woken } = this.#work
    const pos = row.state === 'passed' ? takeFrom(this.#work, 1, 0).pos : row.pos
    connection.run(redriveDelivery, pos, row.id)
    connection.run(closeCase, now, 'redriven', name.consumer, name.topic, name.id)
    transitions.add(name.consumer, 'dead', -1)
    woken.add(name.consumer)
    this.#audit('redrive', name, by, { cycle: row.cycle + 1, before: row.state })
  }

  discard(name: DeliveryName, by: Actor): void {
    if (name.consumer === '') {
      this.#discardKept(name, by)
      return
    }
    const row = this.#findDead(name)
    const { connection, now, transitions } = this.#work
    connection.run(deleteDelivery, row.id)
    connection.run(discardIdentity, now, name.consumer, name.topic, name.id)
    connection.run(closeCase, now, 'discarded', name.consumer, name.topic, name.id)
    transitions.add(name.consumer, 'dead', -1)
    transitions.add(name.consumer, 'discarded')
    letFollowersGo(this.#work, name.consumer, row.key)
    this.#audit('discard', name, by, {
      before: row.state,
      type: row.type,
      version: row.version,
      attempts: row.attempts,
    })
  }

  #discardKept(name: DeliveryName, by: Actor): void {
    const { connection, now, transitions } = this.#work
    if (connection.run(discardKept, name.topic, name.id) === 0)
      throw new IchidoError('NOT_FOUND', `No message ${name.id} of topic ${name.topic} is kept beyond its time.`)
    connection.run(closeCase, now, 'discarded', '', name.topic, name.id)
    transitions.add('', 'kept', -1)
    transitions.add('', 'discarded')
    this.#audit('discard', name, by, { before: 'kept' })
  }

  edit(name: DeliveryName, edited: EditedMessage, by: Actor): void {
    const row = this.#findDead(name)
    const { connection, now, transitions, woken } = this.#work
    const { pos, delivery } = takeFrom(this.#work, 1, 1)
    const { consumer, topic } = name
    if (
      connection.run(insertIdentity, consumer, topic, edited.id, edited.hash, 'open', now, null, null, delivery) === 0
    ) {
      throw new IchidoError('CONFLICT', `The id ${edited.id} is in use; give the edited message a new one.`, {
        retryable: false,
      })
    }
    closeAsReplaced(this.#work, row, edited.id)
    const place = row.state === 'passed' ? pos : row.pos
    const message = [delivery, consumer, topic, edited.id, edited.type, edited.version, row.key, place] as const
    connection.run(insertDelivery, ...message, 'ready', null, row.sent_at, row.headers, edited.body, 1, null, 0, null)
    transitions.add(consumer, 'accepted')
    transitions.add(consumer, 'custody')
    woken.add(consumer)
    this.#audit('edit', name, by, { heir: edited.id, before: row.state })
  }

  unblock(name: DeliveryName, by: Actor): void {
    const row = this.#findDead(name)
    if (row.state === 'passed')
      throw new IchidoError('CONFLICT', `The followers of ${name.id} may pass already.`, { retryable: false })
    this.#work.connection.run(passDelivery, row.id)
    letFollowersGo(this.#work, name.consumer, row.key)
    this.#audit('unblock', name, by, { key: row.key })
  }

  #findDead(name: DeliveryName): FullDeliveryRow {
    const { connection } = this.#work
    if (name.consumer === '')
      throw new IchidoError('CONFLICT', `${name.id} is kept: it runs when somebody consumes ${name.topic}.`, {
        retryable: false,
      })
    const identity = connection.get<IdentityRow>(selectIdentity, name.consumer, name.topic, name.id)
    if (!identity)
      throw new IchidoError('NOT_FOUND', `${name.consumer} has no message ${name.id} on topic ${name.topic}.`)
    const row =
      identity.state === 'open' ? connection.get<FullDeliveryRow>(selectDelivery, identity.delivery_id) : undefined
    if (row?.state !== 'dead' && row?.state !== 'passed') {
      throw new IchidoError(
        'CONFLICT',
        `${name.id} is not a dead letter of ${name.consumer}: it is ${row?.state ?? identity.state}.`,
      )
    }
    return row
  }

  /** Unreadable bytes and reused ids carry their code in the open case. */
  #canRun(row: FullDeliveryRow): boolean {
    const code = this.#work.connection.get<{ code: string }>(
      'select code from ichido_case where consumer = ? and topic = ? and message_id = ? and closed_at is null',
      row.consumer,
      row.topic,
      row.message_id,
    )?.code
    return code !== 'ID_REUSED' && code !== 'INVALID_ID' && code !== 'MESSAGE_TOO_LARGE' && code !== 'UNDECODABLE'
  }

  #audit(action: string, name: DeliveryName, by: Actor, details: Readonly<Record<string, unknown>>): void {
    const target = JSON.stringify([name.consumer, name.topic, name.id])
    this.#work.connection.run(insertAudit, this.#work.now, by.actor, by.reason, action, target, JSON.stringify(details))
  }
}
