import type { Delivery } from '../../contracts/deliveries.ts'
import type { DeliveryState, IdentityState } from '../../contracts/outcome.ts'

export interface DeliveryRow {
  readonly id: number
  readonly consumer: string
  readonly topic: string
  readonly message_id: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  readonly pos: number
  readonly headers: string
  readonly body: Buffer
  readonly sent_at: number
  readonly due_at: number | null
  readonly attempts: number
  readonly deaths: number
  readonly cycle: number
  readonly held: boolean
  readonly replaces: string | null
}

export interface FullDeliveryRow extends DeliveryRow {
  readonly state: DeliveryState
  readonly owner: string | null
  readonly epoch: number
  readonly repeats: number
}

export interface IdentityRow {
  readonly hash: Buffer
  readonly state: IdentityState
  readonly token: number | null
  readonly delivery_id: number
  readonly heir: string | null
}

/** `attempt`: its number, counted already. */
export function toDelivery(row: DeliveryRow, attempt: number, claimedAt: number, suspect: boolean): Delivery {
  return {
    ref: row.id,
    consumer: row.consumer,
    topic: row.topic,
    id: row.message_id,
    type: row.type,
    version: row.version,
    key: row.key,
    pos: row.pos,
    headers: row.headers,
    body: row.body,
    sentAt: row.sent_at,
    plannedAt: row.due_at,
    claimedAt,
    attempt,
    deaths: row.deaths,
    cycle: row.cycle,
    suspect,
    held: row.held,
    replaces: row.replaces,
  }
}

/** An identity that was closed before its message came has no hash yet: any contents fit. */
export function sameHash(stored: Uint8Array, given: Uint8Array): boolean {
  return stored.length === 0 || Buffer.compare(stored, given) === 0
}
