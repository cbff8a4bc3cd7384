import type { Deferral, Delivery } from '../contracts/deliveries.ts'
import { isIchidoError } from '../contracts/errors.ts'
import type { Outcome, StoredError } from '../contracts/outcome.ts'
import { toStoredError } from '../outcomes/stored-error.ts'
import { isStoreDown } from './faults.ts'
import type { RunningConsumer } from './running.ts'
import type { Fate, Settled, Work } from './work.ts'

/** Tells the outside what a committed transaction has settled. Nothing is told before the commit. */
export function announce(running: RunningConsumer, settled: readonly Settled[]): void {
  for (const { work, fate } of settled) announceOne(running, work.delivery, fate)
  if (running.onStep)
    running.onStep(
      'settled',
      settled.map(({ work }) => work.delivery),
    )
}

function announceOne(running: RunningConsumer, delivery: Delivery, fate: Fate): void {
  const { consumer, topic, id, attempt } = delivery
  const { outcome, durationMs, error } = describe(fate)
  running.emit('settled', { consumer, topic, id, outcome, attempt, durationMs, ...(error && { error }) })
  if (outcome !== 'dead' || !error) return
  const label = fate.kind === 'failed' ? fate.deferral.label : 'never started'
  running.emit('dead', { consumer, topic, id, attempt, label, error })
}

function describe(fate: Fate): { outcome: Outcome; durationMs: number; error: StoredError | null } {
  if (fate.kind === 'finish') return { outcome: fate.outcome, durationMs: fate.durationMs, error: null }
  if (fate.kind === 'failed') {
    const { to, durationMs, error } = fate.deferral
    return { outcome: to === 'dead' ? 'dead' : 'retry', durationMs, error }
  }
  return {
    outcome: fate.to === 'dead' ? 'dead' : 'released',
    durationMs: 0,
    error: fate.to === 'dead' ? fate.error : null,
  }
}

/** Puts deliveries back in a transaction of its own; those that another process owns now are left alone. Waits for the store. */
export async function putBack(running: RunningConsumer, deferrals: readonly Deferral[], epoch: number): Promise<void> {
  await untilReachable(running, () => running.store.transaction(session => session.deliveries.defer(deferrals, epoch)))
}

/**
 * Learns how a COMMIT ended whose answer was lost. Claiming again, by a lock on the identities, waits for the old transaction; until then
 * nothing is said about it. Returns what is still ours to run.
 */
export async function resolveCommit(
  running: RunningConsumer,
  works: readonly Work[],
  epoch: number,
): Promise<readonly Work[]> {
  const deliveries = works.map(work => work.delivery)
  const resolutions = await untilReachable(running, () =>
    running.store.transaction(session => session.deliveries.resolve(deliveries, epoch)),
  )
  if (!resolutions) return []
  const committed = resolutions.filter(resolution => resolution === 'committed').length
  const mine = works.filter((_, index) => resolutions[index] === 'mine')
  running.emit('commitResolved', { consumer: running.consumer.name, committed, open: mine.length })
  return mine
}

async function untilReachable<T>(running: RunningConsumer, work: () => Promise<T>): Promise<T | null> {
  for (let failures = 1; ; failures++) {
    try {
      return await work()
    } catch (error) {
      // Both callers only lock and compare, or change what still carries their epoch: doing it twice does no harm.
      if (!isStoreDown(error) && !isIchidoError(error, 'COMMIT_UNKNOWN') && failures > 5) throw error
      await waitForStore(running, error, failures)
      if (running.signal.aborted) return null
    }
  }
}

/** Tells that the store is in trouble, and waits before the next try: longer each time, never in step with other processes. */
export async function waitForStore(running: RunningConsumer, error: unknown, failures = 1): Promise<void> {
  const { code, message } = toStoredError(error, 'system', isIchidoError(error) ? error.code : 'STORE_ERROR')
  running.emit('degraded', { part: `store of ${running.consumer.name}`, code, message })
  const longestMs = Math.min(5_000, 50 * 2 ** Math.min(failures, 10))
  await running.clock.sleep(longestMs * (0.5 + running.clock.random() / 2), running.signal)
}
