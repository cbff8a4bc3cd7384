import type { DeliveryName } from './cases.ts'

/**
 * The step boundaries of a message's life in a worker, in their order. At each of them the process may die, and nothing may be lost,
 * done twice or left over. `recorded` stands before COMMIT, `settled` is when the worker has nothing more to do for the delivery.
 */
export const storeSteps = [
  'claimed',
  'parsed',
  'prepared',
  'transaction begun',
  'handled',
  'recorded',
  'committed',
  'settled',
] as const

/** The boundaries that only a copy from a transport passes. `received` comes first, `acked` last. */
export const transportSteps = ['received', 'admitted', 'before custody', 'custody committed', 'acked'] as const

export type Step = (typeof storeSteps)[number] | (typeof transportSteps)[number]

/**
 * Called by the runtime at each boundary with the deliveries that stand at it: one at a handler's steps, the batch elsewhere. Must not
 * throw. Copies without a usable identity have the id `''`.
 */
export type StepHook = (step: Step, deliveries: readonly DeliveryName[]) => void
