import { randomUUID } from 'node:crypto'
import type { Clock } from '../contracts/clock.ts'
import type { StepHook } from '../contracts/steps.ts'
import type { SqlTx } from '../contracts/store.ts'
import { systemClock } from './clock.ts'
import type { IchidoConfig } from './config.ts'
import { Ichido } from './ichido.ts'

export interface StartOptions {
  /** Default: the machine's clock. */
  readonly clock?: Clock
  /** False: this process only sends. Or the names of the consumers that it runs. Default: all of them. */
  readonly consume?: boolean | readonly string[]
  /** Called at each step boundary; the crash kit of `ichido/testing` uses it. */
  readonly onStep?: StepHook
}

/**
 * Opens the store, migrates it where that is safe (SQLite), takes part in the consumers and starts the loops. Stop it with `stop()`, or
 * declare it with `await using`.
 */
export async function start<Tx extends SqlTx, Joined>(
  config: IchidoConfig<Tx, Joined>,
  options: StartOptions = {},
): Promise<Ichido<Tx, Joined>> {
  const ichido = new Ichido(config, { clock: options.clock ?? systemClock, incarnation: randomUUID(), ...options })
  await ichido.open()
  return ichido
}
