import type { Actor, Cases, DeliveryName, EditedMessage } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import { closeAsReplaced } from './accept.ts'
import * as q from './queries.ts'
import type { FullDeliveryRow, IdentityRow } from './rows.ts'
import { letFollowersGo, type TransactionWork } from './work.ts'

/** What can never run as it is: these codes are told apart by the open case. */
const neverRuns = new Set(['ID_REUSED', 'INVALID_ID', 'MESSAGE_TOO_LARGE', 'UNDECODABLE'])

export class PostgresCases implements Cases {
  readonly #work: TransactionWork

  constructor(work: TransactionWork) {
    this.#work = work
  }

  async redrive(name: DeliveryName, by: Actor): Promise<void> {
    const row = await this.#findDead(name)
    const open = await this.#work.sql.get<{ code: string }>(q.selectOpenCaseCode, name.consumer, name.topic, name.id)
    if (open && neverRuns.has(open.code)) {
      throw new IchidoError('CONFLICT', `${name.id} can never run: edit it, or discard it.`, { retryable: false })
    }
    await this.#work.sql.run(q.redriveDelivery, row.id)
    await this.#work.sql.run(q.closeCase, name.consumer, name.topic, name.id, 'redriven', this.#work.now)
    this.#work.transitions.add(name.consumer, 'dead', -1)
    await this.#audit('redrive', name, by, { cycle: row.cycle + 1, before: row.state })
    this.#work.ring()
  }

  async discard(name: DeliveryName, by: Actor): Promise<void> {
    if (name.consumer === '') return this.#discardKept(name, by)
    const row = await this.#findDead(name)
    const { sql, now, transitions } = this.#work
    await sql.run(q.deleteDelivery, row.id)
    await sql.run(q.discardIdentity, name.consumer, name.topic, name.id, now)
    await sql.run(q.closeCase, name.consumer, name.topic, name.id, 'discarded', now)
    transitions.add(name.consumer, 'dead', -1)
    transitions.add(name.consumer, 'discarded')
    await letFollowersGo(this.#work, name.consumer, row.key)
    await this.#audit('discard', name, by, {
      before: row.state,
      type: row.type,
      version: row.version,
      attempts: row.attempts,
    })
  }

  async #discardKept(name: DeliveryName, by: Actor): Promise<void> {
    const { sql, now, transitions } = this.#work
    if ((await sql.run(q.discardKept, name.topic, name.id)) === 0)
      throw new IchidoError('NOT_FOUND', `No message ${name.id} of topic ${name.topic} is kept beyond its time.`)
    await sql.run(q.closeCase, '', name.topic, name.id, 'discarded', now)
    transitions.add('', 'kept', -1)
    transitions.add('', 'discarded')
    await this.#audit('discard', name, by, { before: 'kept' })
  }

  async edit(name: DeliveryName, edited: EditedMessage, by: Actor): Promise<void> {
    const row = await this.#findDead(name)
    const { sql, now, transitions } = this.#work
    const { consumer, topic } = name
    const delivery = (await sql.get<{ id: number }>(q.nextDeliveryId))?.id as number
    if (
      (await sql.run(
        q.insertIdentity,
        consumer,
        topic,
        edited.id,
        Buffer.from(edited.hash),
        'open',
        null,
        delivery,
        now,
      )) === 0
    ) {
      throw new IchidoError('CONFLICT', `The id ${edited.id} is in use; give the edited message a new one.`, {
        retryable: false,
      })
    }
    await closeAsReplaced(this.#work, row, edited.id)
    const place = row.state === 'passed' ? null : row.pos
    const message = [
      delivery,
      consumer,
      topic,
      edited.id,
      edited.type,
      edited.version,
      row.key,
      place,
      'ready',
    ] as const
    await sql.run(
      q.insertDelivery,
      ...message,
      null,
      row.sent_at,
      row.headers,
      Buffer.from(edited.body),
      true,
      null,
      0,
      now,
    )
    transitions.add(consumer, 'accepted')
    transitions.add(consumer, 'custody')
    await this.#audit('edit', name, by, { heir: edited.id, before: row.state })
    this.#work.ring()
  }

  async unblock(name: DeliveryName, by: Actor): Promise<void> {
    const row = await this.#findDead(name)
    if (row.state === 'passed')
      throw new IchidoError('CONFLICT', `The followers of ${name.id} may pass already.`, { retryable: false })
    await this.#work.sql.run(q.passDelivery, row.id)
    await letFollowersGo(this.#work, name.consumer, row.key)
    await this.#audit('unblock', name, by, { key: row.key })
  }

  async #findDead(name: DeliveryName): Promise<FullDeliveryRow> {
    const { sql } = this.#work
    if (name.consumer === '')
      throw new IchidoError('CONFLICT', `${name.id} is kept: it runs when somebody consumes ${name.topic}.`, {
        retryable: false,
      })
    const identity = await sql.get<IdentityRow>(q.selectIdentity, name.consumer, name.topic, name.id)
    if (!identity)
      throw new IchidoError('NOT_FOUND', `${name.consumer} has no message ${name.id} on topic ${name.topic}.`)
    const row =
      identity.state === 'open' ? await sql.get<FullDeliveryRow>(q.lockDeliveryRow, identity.delivery_id) : undefined
    if (row?.state !== 'dead' && row?.state !== 'passed') {
      throw new IchidoError(
        'CONFLICT',
        `${name.id} is not a dead letter of ${name.consumer}: it is ${row?.state ?? identity.state}.`,
      )
    }
    return row
  }

  async #audit(
    action: string,
    name: DeliveryName,
    by: Actor,
    details: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const target = JSON.stringify([name.consumer, name.topic, name.id])
    await this.#work.sql.run(
      q.insertAudit,
      by.actor,
      by.reason,
      action,
      target,
      JSON.stringify(details),
      this.#work.now,
    )
  }
}
