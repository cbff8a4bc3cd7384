import type { Deferral, Delivery } from '../contracts/deliveries.ts'
import type { Message } from '../contracts/message.ts'
import type { FinishedOutcome, StoredError } from '../contracts/outcome.ts'

/** What has been decided about a delivery, before it is recorded. */
export type Fate =
  | { readonly kind: 'finish'; readonly outcome: FinishedOutcome; readonly durationMs: number }
  | { readonly kind: 'defer'; readonly to: 'version' | 'released' }
  | { readonly kind: 'defer'; readonly to: 'dead'; readonly error: StoredError }
  | { readonly kind: 'failed'; readonly deferral: Deferral; readonly error: unknown }

/** The value that travels through the pipeline. */
export interface Work {
  readonly delivery: Delivery
  message: Message | null
  prepared: unknown
  /** Null: the handler decides. */
  fate: Fate | null
}

export function isDecided(work: Work): boolean {
  return work.fate !== null
}

/** True when the followers of its key may not run after it. */
export function blocksKey(fate: Fate | null): boolean {
  if (fate === null || fate.kind === 'finish') return false
  return !(fate.kind === 'failed' && fate.deferral.to === 'dead' && fate.deferral.onDead === 'pass')
}

/** A work together with what the committed transaction made of it. */
export interface Settled {
  readonly work: Work
  readonly fate: Fate
}
