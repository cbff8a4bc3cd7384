import type { Actor, DeadLetter, DeadLetterQuery, DeliveryName } from '../contracts/cases.ts'
import { type IchidoError, isIchidoError } from '../contracts/errors.ts'
import type { Store } from '../contracts/store.ts'

/** What somebody may do with dead letters by hand, as they are. */
export type Action = 'redrive' | 'discard' | 'unblock'

/**
 * What became of one dead letter that somebody wanted to change.
 *
 *   applied    done and audited
 *   possible   a dry run: it would be done
 *   refused    it changed in the meantime, or can never run
 *   failed     the store could not do it; nothing of it was written, unless the code is COMMIT_UNKNOWN
 *   skipped    not tried, because the store failed before
 */
export interface Change extends DeliveryName {
  readonly outcome: 'applied' | 'possible' | 'refused' | 'failed' | 'skipped'
  /** Why, when it was neither applied nor possible. */
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
 * Changes dead letters, each in a transaction of its own, so that one that has changed in the meantime stops nobody else. Every change is
 * audited in its transaction. With `apply` false the same transactions are rolled back: a dry run that tells what the real one would.
 */
export async function changeDeadLetters(
  store: Store,
  action: Action,
  names: readonly DeliveryName[],
  by: Actor,
  apply: boolean,
): Promise<Change[]> {
  const changes: Change[] = []
  let failure: IchidoError | null = null
  for (const { consumer, topic, id } of names) {
    const name = { consumer, topic, id }
    if (failure) {
      changes.push({ ...name, outcome: 'skipped', code: failure.code, message: 'The store failed before.' })
      continue
    }
    try {
      await change(store, action, name, by, apply)
      changes.push({ ...name, outcome: apply ? 'applied' : 'possible', code: null, message: null })
    } catch (error) {
      if (!isIchidoError(error)) throw error
      const refused = error.code === 'CONFLICT' || error.code === 'NOT_FOUND'
      if (!refused) failure = error
      changes.push({ ...name, outcome: refused ? 'refused' : 'failed', code: error.code, message: error.message })
    }
  }
  return changes
}

class DryRun extends Error {}

async function change(store: Store, action: Action, name: DeliveryName, by: Actor, apply: boolean): Promise<void> {
  try {
    await store.transaction(async session => {
      await session.cases[action](name, by)
      if (!apply) throw new DryRun()
    })
  } catch (error) {
    if (!(error instanceof DryRun)) throw error
  }
}
