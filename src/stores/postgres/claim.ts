import type { Clock } from '../../contracts/clock.ts'
import type { Claim, ClaimRequest } from '../../contracts/deliveries.ts'
import type { Statements } from './client.ts'
import * as q from './queries.ts'
import { type DeliveryRow, toDelivery } from './rows.ts'

interface ClaimRow extends DeliveryRow {
  readonly seen: number
  readonly last_pos: number | null
  readonly parked: number
  readonly busy: readonly string[] | null
  readonly epoch: number
  readonly claimed_at: number
}

const PROMOTE_EVERY_MS = 100
const FORGET_AFTER_MS = 250
const MOST_SKIPPED = 64
const LARGEST_WINDOW = 1_600
const KEYED_FOR_MS = 1_000

/** What a process remembers between claims of one consumer. Only hints: it is forgotten every quarter of a second, and nothing depends on it. */
interface Memory {
  from: number
  skip: string[]
  rememberedAt: number
  promotedAt: number
  nextDueAt: number | null
  /** Claims of one process take turns while they meet keys: colliding ones would find each other's holes and come back with nothing. */
  turn: Promise<unknown>
  keyedAt: number
}

export class Claims {
  readonly #clock: Clock
  readonly #memories = new Map<string, Memory>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  claim(
    withConnection: <T>(work: (sql: Statements) => Promise<T>) => Promise<T>,
    request: ClaimRequest,
    now: Date | null,
  ): Promise<Claim> {
    const memory = this.#memoryOf(request.consumer)
    const isKeyed = this.#clock.monotonic() - memory.keyedAt < KEYED_FOR_MS
    if (!isKeyed) return withConnection(sql => this.#claim(sql, request, memory, now))
    const turn = memory.turn.then(() => withConnection(sql => this.#claim(sql, request, memory, now)))
    memory.turn = turn.catch(() => {})
    return turn
  }

  /** Work that became ready behind the cursor must be seen at once by the one who made it so. */
  forget(consumer: string): void {
    const memory = this.#memories.get(consumer)
    if (memory) {
      memory.from = 0
      memory.nextDueAt = null
    }
  }

  #memoryOf(consumer: string): Memory {
    let memory = this.#memories.get(consumer)
    if (!memory) {
      memory = {
        from: 0,
        skip: [],
        rememberedAt: 0,
        promotedAt: Number.NEGATIVE_INFINITY,
        nextDueAt: null,
        turn: Promise.resolve(),
        keyedAt: Number.NEGATIVE_INFINITY,
      }
      this.#memories.set(consumer, memory)
    }
    return memory
  }

  async #claim(sql: Statements, request: ClaimRequest, memory: Memory, now: Date | null): Promise<Claim> {
    const at = this.#clock.monotonic()
    if (
      at - memory.promotedAt >= PROMOTE_EVERY_MS ||
      now !== null ||
      (memory.nextDueAt !== null && at >= memory.nextDueAt)
    ) {
      memory.promotedAt = at
      memory.nextDueAt = null
      await sql.run(q.promoteRetries, request.consumer, now)
      await sql.run(q.promoteDelayed, request.consumer, now)
    }
    if (at - memory.rememberedAt > FORGET_AFTER_MS) Object.assign(memory, { from: 0, skip: [], rememberedAt: at })
    const found = await this.#search(sql, request, memory, now)
    if (found) return found
    const next = await sql.get<{ in_ms: number }>(q.selectNextDue, request.consumer, now)
    memory.nextDueAt = next ? at + next.in_ms : null
    return { deliveries: [], epoch: 0, nextDueInMs: next ? Number(next.in_ms) : null }
  }

  async #search(sql: Statements, request: ClaimRequest, memory: Memory, now: Date | null): Promise<Claim | null> {
    const { consumer, owner, max, maxBytes } = request
    let from = memory.from
    let window = max
    for (;;) {
      const rows = await sql.all<ClaimRow>(
        q.claimWindow,
        consumer,
        owner,
        window,
        max,
        maxBytes,
        from,
        memory.skip,
        now,
      )
      const [head, ...taken] = rows as [ClaimRow, ...ClaimRow[]]
      if (head.busy) memory.skip = [...new Set([...memory.skip, ...head.busy])].slice(-MOST_SKIPPED)
      const first = taken[0]
      if (head.busy || taken.some(row => row.key !== null)) memory.keyedAt = this.#clock.monotonic()
      if (first) {
        memory.from = first.pos
        const deliveries = taken.map(row => toDelivery(row, row.attempts, row.claimed_at, false))
        return { deliveries, epoch: first.epoch, nextDueInMs: null }
      }
      if (head.seen >= window) {
        // What was marked has left the window; what is held by others stands in it still, so look behind it, and further each time.
        from = (head.last_pos as number) + 1
        window = Math.min(window * 4, LARGEST_WINDOW)
      } else if (memory.from > 0) {
        // Nothing behind the cursor; look from the start before saying so.
        memory.from = 0
        from = 0
      } else {
        memory.skip = []
        return null
      }
    }
  }
}

/** The first suspect whose key has nothing unfinished before it. It is claimed alone, by a process that runs nothing else. */
export async function claimOneSuspect(sql: Statements, request: ClaimRequest, now: Date | null): Promise<Claim> {
  const nothing: Claim = { deliveries: [], epoch: 0, nextDueInMs: null }
  if (!(await sql.get(q.isAlive, request.owner))) return nothing
  const row = await sql.get<DeliveryRow>(q.selectSuspects, request.consumer)
  if (!row) return nothing
  const taken = await sql.get<{ epoch: number; claimed_at: number }>(q.takeSuspect, row.id, request.owner, now)
  if (!taken) return nothing
  return {
    deliveries: [toDelivery(row, row.attempts + 1, taken.claimed_at, true)],
    epoch: taken.epoch,
    nextDueInMs: null,
  }
}
