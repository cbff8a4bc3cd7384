import type { Actor, DeadLetter, DeadLetterQuery, DeliveryName } from '../contracts/cases.ts'
import { isIchidoError } from '../contracts/errors.ts'
import type { Store } from '../contracts/store.ts'

/** What became of one dead letter that somebody wanted to change. */
export interface Change extends DeliveryName {
  readonly applied: boolean
  /** Why not, when it was not applied. */
  readonly code: string | null
  readonly message: string | null
}

const PAGE = 500

/** Every dead letter that the query finds, page by page. The selection is frozen before anything is changed. */
export async function selectDeadLetters(
  store: Store,
  query: Omit<DeadLetterQuery, 'limit' | 'after'>,
): Promise<DeadLetter[]> {
  const found: DeadLetter[] = []
  for (;;) {
    const last = found.at(-1)
    const page = await store.reads.deadLetters({
      ...query,
      limit: PAGE,
      ...(last && { after: { openedAt: last.openedAt, ref: last.ref } }),
    })
    found.push(...page.letters)
    if (page.letters.length < PAGE) return found
  }
}

/**
 * Redrives or discards dead letters, each in a transaction of its own, so that one that has changed in the meantime stops nobody else. Every
 * change is audited in its transaction.
 */
export async function changeDeadLetters(
  store: Store,
  action: 'redrive' | 'discard',
  names: readonly DeliveryName[],
  by: Actor,
): Promise<Change[]> {
  const changes: Change[] = []
  for (const { consumer, topic, id } of names) {
    const name = { consumer, topic, id }
    try {
      await store.transaction(session => session.cases[action](name, by))
      changes.push({ ...name, applied: true, code: null, message: null })
    } catch (error) {
      if (!isIchidoError(error, 'CONFLICT') && !isIchidoError(error, 'NOT_FOUND')) throw error
      changes.push({ ...name, applied: false, code: error.code, message: error.message })
    }
  }
  return changes
}
