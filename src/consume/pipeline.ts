/**
 * The six steps for deliveries that the store's queue hands out:
 *
 *   receive       a claim, made by the caller: attempts counted, leased, one epoch
 *   parse         bytes → message; what cannot be read is dead at once
 *   deduplicate   the identity is ours alone while the row is locked under our epoch
 *   handle        prepare (no transaction), then the handlers one after another in one transaction
 *   record        the identities end, in that same transaction
 *   settle        COMMIT is the ack; what failed is put back or becomes a dead letter
 */
import type { Claim, ClaimRequest } from '../contracts/deliveries.ts'
import { isIchidoError } from '../contracts/errors.ts'
import { released } from '../outcomes/decide.ts'
import { failureOf } from './fate.ts'
import { isBatchAbort, isStoreDown } from './faults.ts'
import { parse } from './parse.ts'
import { runPrepare } from './prepare.ts'
import { HandlerFailure, type Recorded, record } from './record.ts'
import type { RunningConsumer } from './running.ts'
import { announce, putBack, resolveCommit, waitForStore } from './settle.ts'
import { blocksKey, type Settled, type Work } from './work.ts'

/** How a claim went, for the pace of the next one. */
export interface Report {
  /** The next claim, taken in the last settling transaction (stores that chain). */
  readonly next: Claim | null
  readonly failures: number
  /** Deadlocks and the like: smaller batches help. */
  readonly aborts: number
  /** How many fitted into the store's time budget, when that cut the batch. */
  readonly cutAt: number | null
}

interface Pace {
  /** Each handler in a savepoint of its own, because one has failed lately. */
  isolate: boolean
  failures: number
  aborts: number
  cutAt: number | null
  /** Immediate repeats left for a single message that deadlocked: nobody is charged for what the company did. */
  patience: number
}

export async function runClaim(
  running: RunningConsumer,
  claim: Claim,
  isolate: boolean,
  chain: ClaimRequest | null,
): Promise<Report> {
  const pace: Pace = { isolate, failures: 0, aborts: 0, cutAt: null, patience: 3 }
  const works = receive(running, claim)
  await parseAll(running, works)
  await prepareAll(running, works)
  // Given up at shutdown: nobody is charged for it, and signing off gives back what is still claimed.
  if (running.signal.aborted) return { next: null, failures: 0, aborts: 0, cutAt: null }
  const next = await handleAll(running, works, claim.epoch, pace, chain)
  return { next, failures: pace.failures, aborts: pace.aborts, cutAt: pace.cutAt }
}

function receive(running: RunningConsumer, claim: Claim): Work[] {
  running.onStep?.('claimed', claim.deliveries)
  return claim.deliveries.map(delivery => ({ delivery, message: null, prepared: undefined, fate: null }))
}

async function parseAll(running: RunningConsumer, works: readonly Work[]): Promise<void> {
  for (const work of works) {
    const parsing = parse(running.definitions, work.delivery)
    const parsed = parsing instanceof Promise ? await parsing : parsing
    if (parsed.kind === 'message') work.message = parsed.message
    else if (parsed.kind === 'ignored') work.fate = { kind: 'finish', outcome: 'ignored', durationMs: 0 }
    else if (parsed.kind === 'newer') work.fate = { kind: 'defer', to: 'version' }
    else work.fate = { kind: 'defer', to: 'dead', error: parsed.error }
  }
  if (running.onStep)
    running.onStep(
      'parsed',
      works.map(work => work.delivery),
    )
}

async function prepareAll(running: RunningConsumer, works: readonly Work[]): Promise<void> {
  if (running.consumer.prepare) {
    await Promise.all(
      works.map(async work => {
        if (!work.message) return
        const prepared = await runPrepare(running, work.message)
        if (prepared.ok) work.prepared = prepared.value
        else work.fate = failureOf(running, work, prepared.error, prepared.durationMs, false)
      }),
    )
  }
  if (running.onStep)
    running.onStep(
      'prepared',
      works.map(work => work.delivery),
    )
}

/**
 * Brings every work to its end, in as many transactions as it takes. Normally that is one. After a failure the batch is run again with a
 * savepoint for each handler; a message that breaks the transaction itself is taken out; what the company caused is run in halves.
 */
async function handleAll(
  running: RunningConsumer,
  works: readonly Work[],
  epoch: number,
  pace: Pace,
  chain: ClaimRequest | null,
  ended: Settled[] = [],
): Promise<Claim | null> {
  let rest = works
  let next: Claim | null = null
  while (rest.length > 0) {
    let recorded: Recorded
    try {
      recorded = await record(running, rest, epoch, pace.isolate, chain)
    } catch (error) {
      rest = running.signal.aborted ? [] : await recover(running, rest, epoch, pace, error)
      continue
    }
    announce(running, recorded.settled)
    ended.push(...recorded.settled)
    pace.failures += recorded.failures
    if (recorded.settled.length < rest.length) pace.cutAt = recorded.settled.length
    rest = withoutBlocked(recorded.settled, rest.slice(recorded.settled.length))
    next = recorded.next
  }
  return next
}

/** Decides what to do after a transaction that did not commit. Returns the works that are still to be brought to an end. */
async function recover(
  running: RunningConsumer,
  works: readonly Work[],
  epoch: number,
  pace: Pace,
  error: unknown,
): Promise<readonly Work[]> {
  if (isIchidoError(error, 'FENCED')) {
    // Another process owns at least one of them, and its followers must not pass it: nothing of this batch is run again.
    running.emit('fenced', { consumer: running.consumer.name, count: works.length })
    await putBack(
      running,
      works.map(work => released(work.delivery)),
      epoch,
    )
    return []
  }
  if (isIchidoError(error, 'COMMIT_UNKNOWN')) return resolveCommit(running, works, epoch)
  if (error instanceof HandlerFailure) return recoverFromHandler(running, works, epoch, pace, error)
  if (isStoreDown(error)) {
    await waitForStore(running, error)
    return running.signal.aborted ? [] : works
  }
  if (works.length > 1) {
    pace.isolate = true
    pace.aborts += isBatchAbort(error) ? 1 : 0
    return halve(running, works, epoch, pace)
  }
  return charge(running, works, pace, works[0] as Work, error, 0)
}

async function recoverFromHandler(
  running: RunningConsumer,
  works: readonly Work[],
  epoch: number,
  pace: Pace,
  failure: HandlerFailure,
): Promise<readonly Work[]> {
  if (isBatchAbort(failure.error)) {
    pace.aborts++
    if (works.length > 1) return halve(running, works, epoch, pace)
    if (pace.patience-- > 0) return works
  }
  if (!failure.brokeTransaction && !pace.isolate) {
    pace.isolate = true
    return works
  }
  pace.isolate = true
  return charge(running, works, pace, failure.work, failure.error, failure.durationMs)
}

/** The second half waits for the first, since it may hold followers of the same keys. */
async function halve(
  running: RunningConsumer,
  works: readonly Work[],
  epoch: number,
  pace: Pace,
): Promise<readonly Work[]> {
  const half = works.length >> 1
  const first = works.slice(0, half)
  const settled: Settled[] = []
  await handleAll(running, first, epoch, pace, null, settled)
  return withoutBlocked(settled, works.slice(half))
}

/** Marks what may not run any more because an earlier message of its key did not end. */
function withoutBlocked(settled: readonly Settled[], later: readonly Work[]): readonly Work[] {
  const blocked = new Set(settled.filter(({ fate }) => blocksKey(fate)).map(({ work }) => work.delivery.key))
  for (const work of later) {
    if (work.delivery.key !== null && blocked.has(work.delivery.key)) work.fate = { kind: 'defer', to: 'released' }
  }
  return later
}

/** Decides the culprit's fate; the next round records it in its place, and gives its followers back with it. */
async function charge(
  running: RunningConsumer,
  works: readonly Work[],
  pace: Pace,
  culprit: Work,
  error: unknown,
  durationMs: number,
): Promise<readonly Work[]> {
  pace.failures++
  // Its fate is decided and cannot be written: the store is at fault, and the message must not be run again for it.
  if (culprit.fate) await waitForStore(running, error)
  culprit.fate ??= failureOf(running, culprit, error, durationMs, true)
  return running.signal.aborted ? [] : works
}
