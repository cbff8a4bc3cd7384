import { createHash } from 'node:crypto'
import type pg from 'pg'
import type { Claim, Deferral, Delivery } from '../../src/contracts/deliveries.ts'
import { isIchidoError } from '../../src/contracts/errors.ts'
import type { OutgoingMessage } from '../../src/contracts/message.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type PostgresOptions, type PostgresStore, postgres } from '../../src/stores/postgres/store.ts'
import { createDatabase, type TestDatabase } from './postgres-database.ts'

export const server = process.env.ICHIDO_TEST_POSTGRES

export interface Scene {
  readonly database: TestDatabase
  readonly pool: pg.Pool
  readonly store: PostgresStore
  readonly troubles: string[]
  close(): Promise<void>
}

/** A new database with one consumer, `billing`, of the topic `order`, and the process `p1`. */
export async function createScene(options: PostgresOptions & { pool?: pg.PoolConfig } = {}): Promise<Scene> {
  const database = await createDatabase(server as string)
  const { pool: poolOptions, ...rest } = options
  const pool = database.pool(poolOptions)
  const troubles: string[] = []
  const store = postgres(pool, { listen: false, ...rest })
  await store.open({
    clock: systemClock,
    incarnation: 'p1',
    build: 'test',
    onTrouble: (part, error) => troubles.push(`${part}: ${error.code}`),
  })
  await store.migrate()
  await store.subscribe([{ consumer: 'billing', topic: 'order', types: ['order'], fingerprint: 'f' }], true)
  await register(store, 'p1')
  return {
    database,
    pool,
    store,
    troubles,
    async close() {
      await store.close()
      await database.drop()
    },
  }
}

export function register(store: PostgresStore, incarnation: string): Promise<void> {
  return store.register({ incarnation, host: 'test', pid: 1, consumers: ['billing'], build: null })
}

export function message(id: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const body = Buffer.from(JSON.stringify({ id, note: 'x'.repeat(100) }))
  const hash = createHash('md5').update(body).digest()
  const rest = { headers: '{}', sentAt: null, dueAt: null, delayMs: null, replaces: null, key: null }
  return { id, topic: 'order', type: 'order', version: 1, body, hash, ...rest, ...more }
}

export function send(store: PostgresStore, ...messages: OutgoingMessage[]) {
  return store.transaction(session => session.deliveries.accept(messages))
}

export function claim(store: PostgresStore, max = 100, owner = 'p1'): Promise<Claim> {
  return store.claim({ consumer: 'billing', owner, max, maxBytes: 1e9 })
}

export function finish(store: PostgresStore, { deliveries, epoch }: Claim): Promise<void> {
  return store.transaction(async session => {
    const mine = await session.deliveries.lock(deliveries, epoch)
    if (mine !== deliveries.length) throw new Error(`fenced: ${mine} of ${deliveries.length}`)
    await session.deliveries.finish(
      deliveries.map(delivery => ({ delivery, outcome: 'done', durationMs: 1 })),
      epoch,
    )
  })
}

export function deferral(delivery: Delivery, more: Partial<Deferral> = {}): Deferral {
  const error = { class: 'system', code: 'TEST', message: 'failed', stack: null } as const
  return { delivery, to: 'retry', delayMs: 0, onDead: 'block', label: 'rolled back', error, durationMs: 1, ...more }
}

export function defer(store: PostgresStore, claimed: Claim, more: Partial<Deferral> = {}) {
  return store.transaction(session =>
    session.deliveries.defer(
      claimed.deliveries.map(delivery => deferral(delivery, more)),
      claimed.epoch,
    ),
  )
}

export const idsOf = (claimed: Claim) => claimed.deliveries.map(delivery => delivery.id)

export async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work()
    return 'nothing'
  } catch (error) {
    return isIchidoError(error) ? error.code : String(error)
  }
}
