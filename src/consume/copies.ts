/**
 * The six steps for copies that a transport delivers. Success is one transaction, then the ack. What fails, waits, may have been started
 * before, or cannot be read goes into the store's custody in a transaction of its own, then the ack; from there the store owns it.
 * When the store cannot be reached, nothing is acked.
 */
import type { CopyOrigin, CustodyEntry, Identified, Verdict } from '../contracts/deliveries.ts'
import { IchidoError, isIchidoError } from '../contracts/errors.ts'
import type { Message, OutgoingMessage } from '../contracts/message.ts'
import type { FinishedOutcome, StoredError } from '../contracts/outcome.ts'
import type { Session, SqlTx } from '../contracts/store.ts'
import type { Copy } from '../contracts/transport.ts'
import { decide } from '../outcomes/decide.ts'
import { toStoredError } from '../outcomes/stored-error.ts'
import { runHandler, Watch } from './attempt.ts'
import { isBatchAbort, isStoreDown } from './faults.ts'
import { type Identify, identify } from './identify.ts'
import { parse } from './parse.ts'
import { runPrepare } from './prepare.ts'
import type { RunningConsumer } from './running.ts'
import { waitForStore } from './settle.ts'

interface Piece {
  readonly copy: Copy
  readonly identified: Identified
  message: Message | null
  prepared: unknown
  /** Decided before the transaction: it is not run. */
  custody: Omit<CustodyEntry, 'copy'> | null
  outcome: FinishedOutcome
}

/** Brings a batch of copies, in their order, to commit and ack. Returns false when it was given up at shutdown: nothing more was acked. */
export async function runCopies(
  running: RunningConsumer,
  origin: CopyOrigin,
  copies: readonly Copy[],
  how: Identify,
): Promise<boolean> {
  running.onStep?.('received', namesOf(running, origin, copies))
  const { pieces, unreadable } = identify(copies, how)
  if (unreadable.length > 0) {
    const taken = await persist(running, () =>
      running.store.transaction(session => session.deliveries.takeUnreadable(origin, unreadable)),
    )
    if (
      !taken ||
      !(await ackAll(
        running,
        origin,
        unreadable.map(entry => entry.copy),
      ))
    )
      return false
  }
  const work = await Promise.all(pieces.map(piece => readPiece(running, piece.copy, piece.identified)))
  // What failed now failed because of the shutdown: nothing is charged, nothing acked.
  if (running.signal.aborted) return false
  return settlePieces(running, origin, work)
}

async function readPiece(running: RunningConsumer, copy: Copy, identified: Identified): Promise<Piece> {
  const piece: Piece = { copy, identified, message: null, prepared: undefined, custody: null, outcome: 'done' }
  // It may have killed its last owner: the store runs it alone, and counts.
  if (copy.maybeStarted) return { ...piece, custody: entryOf(running, 'suspect', null) }
  const subject = { ...identified, headers: identified.headersText, sentAt: identified.sentAt ?? 0, attempt: 1 }
  const parsed = await parse(running.definitions, subject)
  if (parsed.kind === 'ignored') return { ...piece, outcome: 'ignored' }
  if (parsed.kind === 'newer') return { ...piece, custody: entryOf(running, 'version', null) }
  if (parsed.kind === 'dead') return { ...piece, custody: entryOf(running, 'dead', parsed.error) }
  piece.message = parsed.message
  if (!running.consumer.prepare) return piece
  const prepared = await runPrepare(running, parsed.message)
  if (prepared.ok) return { ...piece, prepared: prepared.value }
  return { ...piece, custody: failureEntry(running, prepared.error, prepared.durationMs, 'never started') }
}

/** Runs of copies that may run share a transaction; what goes into custody stands between them, so that the order of a key is kept. */
async function settlePieces(running: RunningConsumer, origin: CopyOrigin, pieces: readonly Piece[]): Promise<boolean> {
  let rest = pieces
  while (rest.length > 0) {
    const isCustody = rest[0]?.custody != null
    const length = rest.findIndex(piece => (piece.custody !== null) !== isCustody)
    const run = length < 0 ? rest : rest.slice(0, length)
    if (!isCustody) {
      const culprit = await attempt(running, origin, run)
      if (culprit === 'given up') return false
      // The culprit's fate is decided now; the round is made again without its handler.
      if (culprit) continue
    } else if (!(await takeCustody(running, origin, run))) return false
    if (
      !(await ackAll(
        running,
        origin,
        run.map(piece => piece.copy),
      ))
    )
      return false
    rest = rest.slice(run.length)
  }
  return true
}

async function takeCustody(running: RunningConsumer, origin: CopyOrigin, pieces: readonly Piece[]): Promise<boolean> {
  running.onStep?.(
    'before custody',
    namesOf(
      running,
      origin,
      pieces.map(piece => piece.copy),
    ),
  )
  const entries = pieces.map(piece => ({ ...(piece.custody as Omit<CustodyEntry, 'copy'>), copy: piece.identified }))
  const verdicts = await persist(running, () =>
    running.store.transaction(session => session.deliveries.takeCustody(origin, entries, running.build)),
  )
  if (!verdicts) return false
  running.onStep?.(
    'custody committed',
    namesOf(
      running,
      origin,
      pieces.map(piece => piece.copy),
    ),
  )
  for (const [index, piece] of pieces.entries()) announce(running, origin, piece, verdicts.value[index] as Verdict)
  return true
}

/** One transaction for a run of copies. Returns the piece that failed, null when all is committed, or that it was given up. */
async function attempt(
  running: RunningConsumer,
  origin: CopyOrigin,
  pieces: readonly Piece[],
): Promise<Piece | null | 'given up'> {
  let patience = 3
  for (let failures = 1; ; failures++) {
    const watch = new Watch(running.clock, running.timeoutMs)
    const state: { current: Piece | null } = { current: null }
    const giveUp = () => watch.doom(new IchidoError('CLOSED', 'ichido was stopped before the handler returned.'))
    running.signal.addEventListener('abort', giveUp)
    try {
      const verdicts = await running.store.transaction(
        session => handleRun(running, origin, pieces, session, watch, state),
        {
          timeoutMs: running.timeoutMs,
        },
      )
      for (const [index, piece] of pieces.entries()) announce(running, origin, piece, verdicts[index] as Verdict)
      return null
    } catch (error) {
      if (running.signal.aborted) return 'given up'
      // After an unclear COMMIT the copies are admitted again: the insert waits for the old transaction, and a conflict means committed.
      if (isStoreDown(error) || isIchidoError(error, 'COMMIT_UNKNOWN')) {
        await waitForStore(running, error, failures)
        if (running.signal.aborted) return 'given up'
        continue
      }
      if (isBatchAbort(error) && patience-- > 0) continue
      const culprit = state.current ?? (pieces[0] as Piece)
      culprit.custody = failureEntry(running, error, watch.elapsedMs(), 'rolled back')
      return culprit
    } finally {
      running.signal.removeEventListener('abort', giveUp)
      watch.close()
    }
  }
}

async function handleRun(
  running: RunningConsumer,
  origin: CopyOrigin,
  pieces: readonly Piece[],
  session: Session<SqlTx>,
  watch: Watch,
  state: { current: Piece | null },
): Promise<Verdict[]> {
  session.onDoomed(reason => watch.doom(reason))
  const token = await session.deliveries.nextEpoch()
  const verdicts = await session.deliveries.admit(
    origin,
    pieces.map(piece => piece.identified),
    token,
  )
  running.onStep?.(
    'admitted',
    namesOf(
      running,
      origin,
      pieces.map(piece => piece.copy),
    ),
  )
  const concluded: Array<{ copy: Identified; outcome: FinishedOutcome }> = []
  for (const [index, piece] of pieces.entries()) {
    if (verdicts[index] !== 'run') continue
    if (piece.message) {
      state.current = piece
      const sends: OutgoingMessage[] = []
      piece.outcome = await runHandler(running, session, watch, sends, {
        message: piece.message,
        prepared: piece.prepared,
        attempt: 1,
      })
      if (sends.length > 0) await session.deliveries.accept(sends)
      state.current = null
    }
    concluded.push({ copy: piece.identified, outcome: piece.outcome })
  }
  if (concluded.length > 0) await session.deliveries.conclude(origin, concluded)
  return verdicts
}

/** Acks come after the commit, in order. One that cannot be given is not an error: the copy comes again and is a duplicate. */
async function ackAll(running: RunningConsumer, origin: CopyOrigin, copies: readonly Copy[]): Promise<boolean> {
  for (const copy of copies) {
    try {
      await copy.ack()
    } catch (error) {
      const { message } = toStoredError(error, 'system', 'TRANSPORT_UNAVAILABLE')
      running.emit('degraded', {
        part: `transport of ${running.consumer.name}`,
        code: 'TRANSPORT_UNAVAILABLE',
        message,
      })
      return false
    }
  }
  running.onStep?.('acked', namesOf(running, origin, copies))
  return true
}

async function persist<T>(running: RunningConsumer, work: () => Promise<T>): Promise<{ readonly value: T } | null> {
  for (let failures = 1; ; failures++) {
    try {
      return { value: await work() }
    } catch (error) {
      await waitForStore(running, error, failures)
      if (running.signal.aborted) return null
    }
  }
}

function entryOf(
  running: RunningConsumer,
  to: CustodyEntry['to'],
  error: StoredError | null,
): Omit<CustodyEntry, 'copy'> {
  return { to, delayMs: 0, onDead: running.failures.onDead, label: 'never started', error, attempts: 0, durationMs: 0 }
}

function failureEntry(
  running: RunningConsumer,
  error: unknown,
  durationMs: number,
  label: CustodyEntry['label'],
): Omit<CustodyEntry, 'copy'> {
  const decision = decide(running.failures, error, 1)
  return {
    to: decision.to,
    delayMs: decision.delayMs,
    onDead: running.failures.onDead,
    label,
    error: decision.error,
    attempts: 1,
    durationMs,
  }
}

function announce(running: RunningConsumer, origin: CopyOrigin, piece: Piece, verdict: Verdict): void {
  const { id } = piece.identified
  const name = { consumer: origin.consumer, topic: origin.topic, id, attempt: 1 }
  const entry = piece.custody
  if (verdict === 'run') running.emit('settled', { ...name, outcome: piece.outcome, durationMs: 0 })
  else if (verdict === 'duplicate') running.emit('settled', { ...name, outcome: 'duplicate', durationMs: 0 })
  else if (verdict === 'reused' || verdict === 'unprovable') {
    const code = verdict === 'reused' ? 'ID_REUSED' : 'UNPROVABLE'
    const error = toStoredError(new IchidoError(code, `The copy of ${id} was not run.`), 'system', code)
    running.emit('dead', {
      ...name,
      label: verdict === 'reused' ? 'never started' : 'unknown',
      error: { ...error, stack: null },
    })
  } else if (entry?.error) {
    running.emit('settled', {
      ...name,
      outcome: entry.to === 'dead' ? 'dead' : 'retry',
      durationMs: entry.durationMs,
      error: entry.error,
    })
    if (entry.to === 'dead') running.emit('dead', { ...name, label: entry.label, error: entry.error })
  }
}

function namesOf(running: RunningConsumer, origin: CopyOrigin, copies: readonly Copy[]) {
  if (!running.onStep) return []
  return copies.map(copy => ({ consumer: origin.consumer, topic: origin.topic, id: copy.id ?? '' }))
}
