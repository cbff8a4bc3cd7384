import { IchidoError } from '../../contracts/errors.ts'
import type { Connection } from './connection.ts'
import { Transitions } from './counting.ts'
import { releaseFollowers, takeNumbers } from './queries.ts'

/** What the roles of one transaction share. */
export interface TransactionWork {
  /** Throws TX_CLOSED once the transaction is over: whoever still holds the session must not write into the next one. */
  readonly connection: Connection
  readonly transitions: Transitions
  /** Consumers for whom this transaction made something claimable; they are woken after the commit. */
  readonly woken: Set<string>
  readonly now: number
  readonly build: string | null
}

/** `isOver`: the transaction has ended, although somebody may still hold its session. */
export function createWork(
  connection: Connection,
  now: number,
  build: string | null,
  isOver: () => boolean = () => false,
): TransactionWork {
  return {
    get connection() {
      if (isOver()) throw new IchidoError('TX_CLOSED', 'The session was used after its transaction had ended.')
      return connection
    },
    transitions: new Transitions(),
    woken: new Set(),
    now,
    build,
  }
}

/** The first of `places` new places in the order, and the first of `deliveries` new delivery numbers. */
export function takeFrom(work: TransactionWork, places: number, deliveries: number): { pos: number; delivery: number } {
  const last = work.connection.get<{ pos: number; delivery: number }>(takeNumbers, places, deliveries) as {
    pos: number
    delivery: number
  }
  return { pos: last.pos - places + 1, delivery: last.delivery - deliveries + 1 }
}

/** Lets the followers of a key go on, a thousand at a time: each of them is `held`, so the end of the last ones lets the next thousand go. */
export function letFollowersGo(work: TransactionWork, consumer: string, key: string | null): void {
  if (key === null) return
  if (work.connection.run(releaseFollowers, consumer, key) > 0) work.woken.add(consumer)
}
