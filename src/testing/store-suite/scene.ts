import { createHash } from 'node:crypto'
import type { Actor, DeadLetter, DeliveryName } from '../../contracts/cases.ts'
import type { Clock } from '../../contracts/clock.ts'
import type {
  Awaitable,
  Claim,
  CopyOrigin,
  CustodyEntry,
  Deferral,
  Delivery,
  Identified,
  Verdict,
} from '../../contracts/deliveries.ts'
import type { IchidoError } from '../../contracts/errors.ts'
import type { Counters } from '../../contracts/ledger.ts'
import type { Acceptance, OutgoingMessage } from '../../contracts/message.ts'
import type { FinishedOutcome, StoredError } from '../../contracts/outcome.ts'
import type { Reaped, Session, SqlTx, Store, StoreHost } from '../../contracts/store.ts'
import { systemClock } from '../../runtime/clock.ts'
import { FakeClock } from '../fake-clock.ts'
import type { Expect } from '../test-framework.ts'
import { imbalances } from './balance.ts'

/** A fresh database, and what the suite cannot know of it. */
export interface StoreFixture {
  /** A new store object on the same database, not opened; another process has one like it. */
  store(): Store<SqlTx, never>
  /** The n-th parameter in SQL, from 1: `?` or `$1`. */
  placeholder(n: number): string
  /** A table of ichido as SQL names it: `ichido.audit`, `ichido_audit`. */
  table(name: string): string
  /**
   * Runs `work` inside a transaction on the user's own driver; `query` runs one statement of the user's. It commits, or rolls back when
   * `work` throws. Absent where a store has no such driver.
   */
  foreign?<T>(
    work: (tx: never, query: (sql: string, ...params: readonly unknown[]) => Promise<unknown>) => Promise<T>,
  ): Promise<T>
  close(): Promise<void>
}

export interface StoreSubject {
  readonly name: string
  create(): Promise<StoreFixture>
  /** False for a database that lives in one process: tests with a second store object on it are left out. */
  readonly shared: boolean
}

export const ORDERS = 'orders'
export const BY: Actor = { actor: 'alice', reason: 'the cause is mended' }
export const BROKEN: StoredError = { class: 'business', code: 'BROKEN', message: 'It broke.', stack: 'at here' }

/** 16 bytes over type, version, key and body, as a sender makes them. */
export function hashOf(type: string, version: number, key: string | null, body: Uint8Array): Uint8Array {
  const hash = createHash('sha256')
    .update(JSON.stringify([type, version, key]))
    .update(body)
  return new Uint8Array(hash.digest().subarray(0, 16))
}

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export function message(id: string, parts: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const { type = 'order.placed', version = 1, key = null, body = bytes(`{"id":${JSON.stringify(id)}}`) } = parts
  return {
    id,
    topic: ORDERS,
    type,
    version,
    key,
    headers: '{}',
    body,
    hash: hashOf(type, version, key, body),
    sentAt: null,
    dueAt: null,
    delayMs: null,
    replaces: null,
    ...parts,
  }
}

export function keyed(key: string, ...ids: readonly string[]): OutgoingMessage[] {
  return ids.map(id => message(id, { key }))
}

export function numbered(prefix: string, count: number, parts: Partial<OutgoingMessage> = {}): OutgoingMessage[] {
  return Array.from({ length: count }, (_, index) => message(`${prefix}${index}`, parts))
}

export function idsOf(claim: Claim): string[] {
  return claim.deliveries.map(delivery => delivery.id)
}

/** A store with a fake clock, and the verbs of a life of messages. */
export class Scene {
  readonly subject: StoreSubject
  readonly fixture: StoreFixture
  readonly clock: FakeClock
  readonly store: Store<SqlTx, never>
  readonly expect: Expect
  readonly troubles: IchidoError[] = []
  readonly #opened: Store<SqlTx, never>[] = []
  readonly #host: StoreHost

  private constructor(subject: StoreSubject, fixture: StoreFixture, expect: Expect, clock: Clock) {
    this.subject = subject
    this.fixture = fixture
    this.expect = expect
    this.clock = clock as FakeClock
    this.store = fixture.store()
    this.#host = { clock, incarnation: 'p1', build: 'v1', onTrouble: (_, error) => void this.troubles.push(error) }
  }

  /** `clock`: the system's, for what happens in other threads; the default stands still. */
  static async open(subject: StoreSubject, expect: Expect, clock: Clock = new FakeClock()): Promise<Scene> {
    const scene = new Scene(subject, await subject.create(), expect, clock)
    await scene.#open(scene.store, 'p1')
    await scene.store.migrate()
    await scene.process('p1')
    await scene.process('p2')
    return scene
  }

  async #open(store: Store<SqlTx, never>, incarnation: string): Promise<void> {
    await store.open({ ...this.#host, incarnation })
    this.#opened.push(store)
  }

  /** One more store object on the same database. */
  async another(incarnation: string): Promise<Store<SqlTx, never>> {
    const store = this.fixture.store()
    await this.#open(store, incarnation)
    return store
  }

  async close(): Promise<void> {
    for (const store of this.#opened) await store.close()
    await this.fixture.close()
  }

  /** Registers a process, as a start does. */
  process(incarnation: string, consumers: readonly string[] = ['billing', 'shipping']): Promise<void> {
    return this.store.register({ incarnation, host: 'host', pid: 1, consumers, build: 'v1' })
  }

  subscribe(consumer: string, topic = ORDERS): Promise<void> {
    return this.store.subscribe([{ consumer, topic, types: ['order.placed'], fingerprint: 'f' }], false)
  }

  transaction<T>(work: (session: Session<SqlTx>) => Awaitable<T>): Promise<T> {
    return this.store.transaction(work)
  }

  send(...messages: readonly OutgoingMessage[]): Promise<Acceptance[]> {
    return this.transaction(session => session.deliveries.accept(messages))
  }

  /** A claim one poll later: whatever the store remembers of earlier claims has run out by then. */
  async claim(consumer = 'billing', owner = 'p1', max = 100): Promise<Claim> {
    await this.clock.advance(300)
    return this.store.claim({ consumer, owner, max, maxBytes: 1e9 })
  }

  async claimSuspect(consumer = 'billing', owner = 'p1'): Promise<Claim> {
    await this.clock.advance(300)
    return this.store.claimSuspect({ consumer, owner, max: 1, maxBytes: 1e9 })
  }

  /** The business transaction of a batch: lock, an effect per delivery, finish. */
  finish(claim: Claim, outcome: FinishedOutcome = 'done', only: readonly Delivery[] = claim.deliveries): Promise<void> {
    return this.transaction(async session => {
      await session.deliveries.lock(only, claim.epoch)
      const finished = only.map(delivery => ({ delivery, outcome, durationMs: 1 }))
      await session.deliveries.finish(finished, claim.epoch)
    })
  }

  /** Claims and finishes until nothing comes any more, and tells the ids in the order in which they ran. */
  async drain(consumer = 'billing', owner = 'p1', max = 100): Promise<string[]> {
    const ran: string[] = []
    for (;;) {
      const claim = await this.claim(consumer, owner, max)
      if (claim.deliveries.length === 0) return ran
      await this.finish(claim)
      ran.push(...idsOf(claim))
    }
  }

  defer(
    claim: Claim,
    parts: Partial<Deferral> & Pick<Deferral, 'to'>,
    only: readonly Delivery[] = claim.deliveries,
  ): Promise<ReadonlySet<number>> {
    const failed = parts.to === 'retry' || parts.to === 'dead'
    const deferrals = only.map(delivery => ({
      delivery,
      delayMs: 1_000,
      onDead: 'block' as const,
      label: 'rolled back' as const,
      error: failed ? BROKEN : null,
      durationMs: 1,
      ...parts,
    }))
    return this.transaction(session => session.deliveries.defer(deferrals, claim.epoch))
  }

  /** Sends nothing, claims what is next of a consumer and lets it fail for good. */
  async kill(ids: readonly string[], onDead: 'block' | 'pass' = 'block', consumer = 'billing'): Promise<void> {
    const claim = await this.claim(consumer)
    const [dead, others] = [true, false].map(wanted =>
      claim.deliveries.filter(delivery => ids.includes(delivery.id) === wanted),
    )
    await this.defer(claim, { to: 'dead', onDead }, dead)
    await this.defer(claim, { to: 'released' }, others)
  }

  name(id: string, consumer = 'billing'): DeliveryName {
    return { consumer, topic: ORDERS, id }
  }

  redrive(id: string, consumer = 'billing'): Promise<void> {
    return this.transaction(session => session.cases.redrive(this.name(id, consumer), BY))
  }

  discard(id: string, consumer = 'billing'): Promise<void> {
    return this.transaction(session => session.cases.discard(this.name(id, consumer), BY))
  }

  unblock(id: string, consumer = 'billing'): Promise<void> {
    return this.transaction(session => session.cases.unblock(this.name(id, consumer), BY))
  }

  edit(id: string, heir: string, consumer = 'billing'): Promise<void> {
    const body = bytes(`{"edited":${JSON.stringify(heir)}}`)
    const edited = { id: heir, type: 'order.placed', version: 2, body, hash: hashOf('order.placed', 2, null, body) }
    return this.transaction(session => session.cases.edit(this.name(id, consumer), edited, BY))
  }

  async letters(consumer?: string): Promise<readonly DeadLetter[]> {
    const page = await this.store.reads.deadLetters({ limit: 1_000, ...(consumer !== undefined && { consumer }) })
    this.expect(page.total, 'the total of dead letters').toBe(page.letters.length)
    return page.letters
  }

  /** The state of one delivery, and how it waits. */
  async stateOf(id: string, consumer = 'billing'): Promise<string> {
    const trace = (await this.store.reads.trace(id)).find(entry => entry.consumer === consumer)
    if (!trace) return 'unknown'
    return trace.waiting ?? trace.state
  }

  async counters(consumer: string): Promise<Partial<Counters>> {
    const { counters } = await this.store.reads.ledger()
    return counters.find(row => row.consumer === consumer) ?? {}
  }

  /** `work` while time goes on, for what waits on the clock. */
  async meanwhile<T>(work: Promise<T>, stepMs = 1_000): Promise<T> {
    let settled = false
    const watched = work.finally(() => {
      settled = true
    })
    watched.catch(() => {})
    for (let turns = 0; !settled && turns < 5_000; turns++) {
      await systemClock.sleep(turns < 20 ? 0 : 2)
      if (!settled && this.clock.pending > 0) await this.clock.advance(stepMs)
    }
    return watched
  }

  purge(consumer: string, retentionMs: number, limit = 1_000): Promise<number> {
    return this.meanwhile(this.store.maintenance.purge(consumer, retentionMs, limit))
  }

  /** The process beats no more: a lease later it and what it held are found, and its successor signs on. */
  async lose(owner: string, successor: string): Promise<readonly Reaped[]> {
    await this.clock.advance(30_001)
    const reaped = await this.store.maintenance.reap(30_000, 3)
    this.expect(reaped.map(entry => entry.incarnation).includes(owner), `${owner} is found lost`).toBe(true)
    await this.process(successor)
    return reaped
  }

  origin(parts: Partial<CopyOrigin> = {}): CopyOrigin {
    return {
      consumer: 'billing',
      topic: ORDERS,
      onDead: 'block',
      keyed: true,
      marginMs: 1_000,
      acceptUnknownAge: false,
      ...parts,
    }
  }

  copy(id: string, parts: Partial<Identified> = {}): Identified {
    const { type = 'order.placed', version = 1, key = null, body = message(id).body } = parts
    const hash = hashOf(type, version, key, body)
    const sentAt = this.clock.now()
    const plain = {
      id,
      topic: ORDERS,
      type,
      version,
      key,
      headers: {},
      headersText: '{}',
      sentAt,
      dueAt: null,
      body,
      hash,
    }
    return { ...plain, ...parts }
  }

  /** The transaction of a transport's batch: admit, and conclude what runs. */
  admit(copies: readonly Identified[], origin = this.origin()): Promise<Verdict[]> {
    return this.transaction(async ({ deliveries }) => {
      const verdicts = await deliveries.admit(origin, copies, await deliveries.nextEpoch())
      const running = copies.filter((_, index) => verdicts[index] === 'run')
      await deliveries.conclude(
        origin,
        running.map(copy => ({ copy, outcome: 'done' as const })),
      )
      return verdicts
    })
  }

  custody(
    copies: readonly Identified[],
    parts: Partial<CustodyEntry> = {},
    origin = this.origin(),
  ): Promise<Verdict[]> {
    const entries = copies.map(copy => ({
      copy,
      to: 'retry' as const,
      delayMs: 1_000,
      onDead: origin.onDead,
      label: 'rolled back' as const,
      error: BROKEN,
      attempts: 1,
      durationMs: 1,
      ...parts,
    }))
    return this.transaction(session => session.deliveries.takeCustody(origin, entries, 'v1'))
  }

  async balanced(): Promise<void> {
    await this.store.maintenance.foldCounters()
    const snapshot = await this.store.reads.ledger(true)
    this.expect(snapshot.sweep).toEqual(await this.store.reads.sweep())
    this.expect(imbalances(snapshot, snapshot.sweep ?? []), 'the books balance').toEqual([])
  }
}
