/**
 * A COMMIT whose answer never came.
 *
 * P1 runs one message and sends COMMIT; the connection dies. The server may still be at it: the transaction stays in flight, its
 * locks held, until it is committed or aborted. P1 must find out which, on a new connection. `lock` inserts the identity again (transport)
 * or locks the delivery at its own epoch (store): both wait for the old transaction, and then tell. The identity carries the token of the
 * attempt that finished it: mine means that I committed, another's that I am a duplicate.
 *
 * Meanwhile P2 may receive a copy (the transport's ownership moved) or claim the row (the lease was lost; not while it is locked).
 * An attempt that is taken for rolled back becomes a dead letter with that label here, because that is the worst that can follow. The
 * dead letter is the identity's own row, so that writing it waits too, or it lies `beside` it, in a table of its own.
 */
import type { Machine, Move } from './explore.ts'

export interface Rules {
  resolve: 'lock' | 'read' | 'guess committed' | 'guess rolled back'
  deadLetter: 'identity' | 'beside'
  /** A finished identity carries the token of its attempt. */
  token: boolean
}

export interface Setup {
  route: 'transport' | 'store'
  /** How often the answer to a COMMIT may be missing. */
  unknown?: number
  takeovers?: number
  rules?: Partial<Rules>
}

export const CHOSEN: Rules = { resolve: 'lock', deadLetter: 'identity', token: true }

interface Process {
  at: 'away' | 'idle' | 'runs' | 'unknown' | 'fail' | 'ack' | 'over'
  /** Its attempts so far; a token is its name and this number. */
  attempt: number
  /** What it says became of its last attempt. */
  says: '' | 'committed' | 'duplicate' | 'rolled back'
}

export interface State {
  /** The identity: not there, open with a delivery, or how it ended. */
  row: 'none' | 'open' | 'done' | 'dead'
  token: string
  /** Store: who holds the lease. */
  owner: number
  /** The transaction whose COMMIT was not answered: the token it will write. */
  flight: string
  committed: string
  effects: number
  /** A dead letter in a table of its own. */
  beside: boolean
  acked: boolean
  processes: readonly Process[]
  unknown: number
  takeovers: number
  bad: string | null
}

export function unknownCommit(setup: Setup): Machine<State> {
  const { route, unknown = 1, takeovers = 1 } = setup
  const rules: Rules = { ...CHOSEN, ...setup.rules }
  const store = route === 'store'

  const set = (s: State, p: number, to: Partial<Process>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    processes: s.processes.map((old, i) => (i === p ? { ...old, ...to } : old)),
  })
  const tokenOf = (s: State, p: number) => `P${p + 1}.${s.processes[p]!.attempt}`
  /** The row, or the identity's place in the index, is locked by another transaction. */
  const locked = (s: State, self: number) =>
    s.flight !== '' || s.processes.some((p, i) => i !== self && p.at === 'runs')
  const runnable = (s: State, p: number) => (store ? s.row === 'open' && s.owner === p : s.row === 'none')

  function next(s: State, step: Move<State>, fault: Move<State>): void {
    for (let p = 0; p < 2; p++) moveProcess(s, p, step, fault)
    if (s.flight !== '') {
      step(`the server commits ${s.flight}`, { ...done(s, s.flight), flight: '' })
      step(`the server aborts ${s.flight}`, { ...s, flight: '' })
    }
    if (s.takeovers === 0) return
    const more = { takeovers: s.takeovers - 1 }
    if (!store && s.processes[1]!.at === 'away' && !s.acked)
      fault('ownership moves to P2', set(s, 1, { at: 'idle' }, more))
    if (store && s.row === 'open' && s.owner === 0 && !locked(s, -1))
      fault('P2 takes the lease', set(s, 1, { at: 'idle' }, { ...more, owner: 1 }))
  }

  const done = (s: State, token: string): State => ({
    ...s,
    row: 'done',
    token,
    committed: token,
    effects: s.effects + 1,
  })

  function moveProcess(s: State, p: number, step: Move<State>, fault: Move<State>): void {
    const P = s.processes[p]!
    const me = `P${p + 1}`
    if (P.at === 'idle') {
      if (locked(s, p)) return
      if (runnable(s, p)) step(`${me} runs`, set(s, p, { at: 'runs', attempt: P.attempt + 1, says: '' }))
      else step(`${me} finds it settled`, set(s, p, { at: 'ack', says: 'duplicate' }))
    } else if (P.at === 'runs') {
      step(`${me} COMMIT`, set(done(s, tokenOf(s, p)), p, { at: 'ack', says: 'committed' }))
      if (s.unknown > 0)
        fault(
          `${me} COMMIT, no answer`,
          set(s, p, { at: 'unknown' }, { flight: tokenOf(s, p), unknown: s.unknown - 1 }),
        )
    } else if (P.at === 'unknown') resolve(s, p, me, step)
    else if (P.at === 'fail') {
      const held = rules.deadLetter === 'identity' && locked(s, p)
      if (held) return
      const ours = rules.deadLetter === 'identity' && runnable(s, p)
      const more: Partial<State> = rules.deadLetter === 'beside' ? { beside: true } : ours ? { row: 'dead' } : {}
      const says = ours || rules.deadLetter === 'beside' ? P.says : 'duplicate'
      const what = says === 'duplicate' ? 'finds it settled' : 'writes a dead letter: rolled back'
      step(`${me} ${what}`, set(s, p, { at: 'ack', says }, more))
    } else if (P.at === 'ack') {
      const early = !store && s.flight.startsWith(me) ? `early: ${me} acks while its COMMIT is in flight` : s.bad
      step(`${me} acks`, set(s, p, { at: 'over' }, { acked: true, bad: early }))
    }
  }

  function resolve(s: State, p: number, me: string, step: Move<State>): void {
    const mine = !rules.token || s.token === tokenOf(s, p)
    const settled = mine ? 'committed' : 'duplicate'
    const open = (t: State) => (store ? t.row === 'open' : t.row === 'none')
    if (rules.resolve === 'guess committed')
      step(`${me} guesses: committed`, set(s, p, { at: 'ack', says: 'committed' }))
    else if (rules.resolve === 'guess rolled back')
      step(`${me} guesses: rolled back`, set(s, p, { at: 'fail', says: 'rolled back' }))
    else if (rules.resolve === 'read') {
      if (open(s)) step(`${me} reads: rolled back`, set(s, p, { at: 'fail', says: 'rolled back' }))
      else step(`${me} reads: ${settled}`, set(s, p, { at: 'ack', says: settled }))
    } else if (!locked(s, p)) {
      if (runnable(s, p))
        step(
          `${me} has the row: rolled back, runs again`,
          set(s, p, { at: 'runs', attempt: s.processes[p]!.attempt + 1 }),
        )
      else if (open(s)) step(`${me} is fenced: rolled back`, set(s, p, { at: 'over', says: 'rolled back' }))
      else step(`${me} finds it ${s.row}: ${settled}`, set(s, p, { at: 'ack', says: settled }))
    }
  }

  function check(s: State): string | null {
    if (s.bad !== null) return s.bad
    if (s.effects > 1) return 'twice: the message takes effect a second time'
    if (s.row === 'done' && s.beside) return 'both: done, and a dead letter'
    for (let p = 0; p < 2; p++) {
      const { at, says } = s.processes[p]!
      if (at !== 'ack' && at !== 'over') continue
      const mine = s.committed === tokenOf(s, p)
      if (says === 'rolled back' && mine) return `label: P${p + 1} says rolled back, and it committed`
      if (says === 'committed' && !mine && s.flight !== tokenOf(s, p))
        return `label: P${p + 1} says committed, and it did not`
    }
    return null
  }

  return {
    initial: {
      row: store ? 'open' : 'none',
      token: '',
      owner: 0,
      flight: '',
      committed: '',
      effects: 0,
      beside: false,
      acked: false,
      processes: [
        { at: 'idle', attempt: 0, says: '' },
        { at: 'away', attempt: 0, says: '' },
      ],
      unknown,
      takeovers,
      bad: null,
    },
    next,
    key: s => JSON.stringify(s),
    check,
    settled: s =>
      s.flight === '' &&
      s.processes.every(p => p.at === 'over' || p.at === 'away') &&
      (s.row === 'done' || s.row === 'dead' || s.beside),
    show: s => `the message, ${s.row}`,
  }
}
