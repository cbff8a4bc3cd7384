/**
 * Edits, redrives, discards and re-sent messages, all about one message X that may die, with a follower F of its key.
 *
 * X, once dead, holds its key. An operator reads a case (the row, its state and epoch), thinks, and acts: the act locks the row and goes
 * through only if state and epoch are still what was read. A redrive makes the row ready again at its place. A discard ends it and
 * releases its followers. An edit closes it as `replaced` and inserts an heir at its place, in one transaction; the heir inherits `held`,
 * because followers may be marked behind the place.
 *
 * The source may also send a message R that says `replaces: X`. R locks X, or claims the identity of an X that is not known yet so that
 * a late copy of X is a duplicate. If X was replaced already, it is the last heir that counts. Done → R is a duplicate; unfinished and
 * not leased → replaced, R takes its place; leased → R waits outside the order and looks again later; discarded → R is a message like any other.
 *
 * The claim is taken as one instant here (claim.ts): the key's first row, if it is ready; followers of a waiting one are marked.
 */
import type { Machine, Move } from './explore.ts'

export interface Rules {
  edit: 'one transaction' | 'close, insert' | 'insert, close'
  /** What an operator's act compares with what was read. `state`: enough for the effects; an approval needs the epoch too. */
  compare: 'state and epoch' | 'state' | 'nothing'
  /** The heir inherits `held`. */
  inherits: boolean
  /**
   * What R does to a leased X. `wait`. `fence`: closes it, so that its owner's epoch is an old one. `ignore`: is inserted at its place and
   * leaves the lease alone. `believe`: waits too, but acts on what it read of X before it locked anything.
   */
  leased: 'wait' | 'fence' | 'ignore' | 'believe'
  /** R follows X to its last heir. */
  follows: boolean
  /** R claims the identity of an X that has not come yet. */
  claimsBoth: boolean
}

export interface Setup {
  /** What operators will try, each by one of them. */
  operators?: ('redrive' | 'edit' | 'discard')[]
  /** R is sent at some time. */
  resend?: boolean
  /** X is still on its way when the story begins. */
  late?: boolean
  fails?: number
  beats?: number
  workers?: number
  rules?: Partial<Rules>
}

export const CHOSEN: Rules = {
  edit: 'one transaction',
  compare: 'state and epoch',
  inherits: true,
  leased: 'wait',
  follows: true,
  claimsBoth: true,
}

const STATES = [
  'none',
  'ready',
  'leased',
  'retry',
  'dead',
  'behind',
  'waits',
  'done',
  'replaced',
  'discarded',
  'duplicate',
] as const
type St = (typeof STATES)[number]
const WORKER = ['idle', 'leased', 'runs'] as const
const OPERATOR = ['idle', 'read', 'between', 'over'] as const

const X = 0
const F = 1
const R = 2

interface Row {
  st: St
  pos: number
  epoch: number
  held: boolean
  heir: number
}

interface Worker {
  at: (typeof WORKER)[number]
  row: number
  epoch: number
}

interface Operator {
  at: (typeof OPERATOR)[number]
  row: number
  epoch: number
  heir: number
}

export interface State {
  /** X, F, R, and then the heirs that edits make. */
  rows: readonly Row[]
  workers: readonly Worker[]
  operators: readonly Operator[]
  sent: 'no' | 'reading' | 'yes'
  read: St
  /** A late X has come. */
  arrived: boolean
  fails: number
  beats: number
  effects: number
  bad: string | null
}

const NONE: Row = { st: 'none', pos: 0, epoch: 0, held: false, heir: -1 }
const REST: Worker = { at: 'idle', row: 0, epoch: 0 }
const has = (mask: number, i: number) => ((mask >> i) & 1) === 1
const inOrder = (r: Row) => ['ready', 'leased', 'retry', 'dead', 'behind'].includes(r.st)

export function edit(setup: Setup): Machine<State> {
  const { operators = [], resend = false, late = false, fails = 1, beats = 0, workers = 2 } = setup
  const rules: Rules = { ...CHOSEN, ...setup.rules }
  const edits = operators.filter(o => o === 'edit').length
  const name = (i: number) => ['X', 'F', 'R'][i] ?? `E${i - R}`

  const set = (s: State, i: number, to: Partial<Row>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    rows: s.rows.map((r, j) => (i === j ? { ...r, ...to } : r)),
  })
  const setWorker = (s: State, w: number, to: Worker): State => ({
    ...s,
    workers: s.workers.map((o, i) => (i === w ? to : o)),
  })
  const setOperator = (s: State, o: number, to: Partial<Operator>): State => ({
    ...s,
    operators: s.operators.map((old, i) => (i === o ? { ...old, ...to } : old)),
  })
  /** Row locks are held while a handler runs; all else here locks for an instant. */
  const locked = (s: State, i: number) => s.workers.some(w => w.at === 'runs' && w.row === i)
  const end = (s: State) => Math.max(...s.rows.map(r => r.pos)) + 1
  const lastHeir = (s: State, i: number): number =>
    s.rows[i]!.st === 'replaced' && s.rows[i]!.heir >= 0 ? lastHeir(s, s.rows[i]!.heir) : i

  /** The row ends as `st`; if it carries `held`, its followers are released and carry it on. */
  function finish(s: State, i: number, st: St, more: Partial<State> = {}): State {
    const held = s.rows[i]!.held
    const t = set(s, i, { st, held: false }, more)
    if (!held) return t
    return { ...t, rows: t.rows.map(r => (r.st === 'behind' ? { ...r, st: 'ready' as const, held: true } : r)) }
  }

  /** `heir` takes the place of row `i`. */
  function replace(s: State, i: number, heir: number): State {
    const old = s.rows[i]!
    const closed = set(s, i, { st: 'replaced', heir, epoch: old.epoch + 1, held: false })
    return set(closed, heir, { st: 'ready', pos: old.pos, held: rules.inherits && old.held })
  }

  function next(s: State, step: Move<State>, fault: Move<State>): void {
    for (let w = 0; w < workers; w++) moveWorker(s, w, step, fault)
    for (let i = 0; i < s.rows.length; i++) {
      if (s.rows[i]!.st === 'retry') step(`${name(i)} is due again`, set(s, i, { st: 'ready' }))
    }
    markFollowers(s, step)
    for (let o = 0; o < operators.length; o++) operate(s, o, step, fault)
    moveSource(s, step)
  }

  const order = (s: State) =>
    s.rows
      .map((_, i) => i)
      .filter(i => inOrder(s.rows[i]!))
      .sort((a, b) => s.rows[a]!.pos - s.rows[b]!.pos || a - b)

  function markFollowers(s: State, step: Move<State>): void {
    const [first, ...rest] = order(s)
    if (first === undefined || (s.rows[first]!.st !== 'retry' && s.rows[first]!.st !== 'dead')) return
    for (const i of rest)
      if (s.rows[i]!.st === 'ready') step(`${name(i)} is marked behind ${name(first)}`, set(s, i, { st: 'behind' }))
  }

  function moveWorker(s: State, w: number, step: Move<State>, fault: Move<State>): void {
    const W = s.workers[w]!
    const me = `W${w + 1} ${name(W.row)}`
    if (W.at === 'idle') {
      if (s.workers.slice(0, w).some(o => o.at === 'idle')) return
      const first = order(s)[0]
      if (first === undefined || s.rows[first]!.st !== 'ready' || s.rows.some(r => r.st === 'leased')) return
      const epoch = s.rows[first]!.epoch + 1
      step(
        `W${w + 1} leases ${name(first)}`,
        setWorker(set(s, first, { st: 'leased', epoch }), w, { at: 'leased', row: first, epoch }),
      )
    } else if (W.at === 'leased') {
      const row = s.rows[W.row]!
      const mine = row.st === 'leased' && row.epoch === W.epoch
      if (!mine) step(`${me}: fenced`, setWorker(s, w, REST))
      else if (!locked(s, W.row)) step(`${me}: handler runs`, setWorker(s, w, { ...W, at: 'runs' }))
      if (mine && s.beats > 0)
        fault(
          `the beat of W${w + 1} runs out`,
          set(s, W.row, { st: 'ready', epoch: row.epoch + 1 }, { beats: s.beats - 1 }),
        )
    } else {
      step(`${me}: COMMIT`, setWorker(finish(s, W.row, 'done', effect(s, W.row)), w, REST))
      if (s.fails === 0) return
      for (const st of ['retry', 'dead'] as const)
        fault(`${me}: fails -> ${st}`, setWorker(set(s, W.row, { st, held: true }, { fails: s.fails - 1 }), w, REST))
    }
  }

  function effect(s: State, i: number): Partial<State> {
    let bad = s.bad
    for (let j = 0; j < s.rows.length; j++) {
      if (i !== F && j !== F && has(s.effects, j)) bad ??= `twice: ${name(i)} takes effect after ${name(j)}`
      if (has(s.effects, j) && s.rows[j]!.pos > s.rows[i]!.pos)
        bad ??= `order: ${name(j)} took effect before ${name(i)}`
      if (j !== i && inOrder(s.rows[j]!) && s.rows[j]!.pos < s.rows[i]!.pos)
        bad ??= `order: ${name(i)} takes effect before ${name(j)}`
    }
    return { effects: s.effects | (1 << i), bad }
  }

  function operate(s: State, o: number, step: Move<State>, fault: Move<State>): void {
    const O = s.operators[o]!
    const what = operators[o]!
    const me = `operator ${String.fromCharCode(65 + o)}`
    if (O.at === 'idle') {
      for (let i = 0; i < s.rows.length; i++)
        if (i !== F && s.rows[i]!.st === 'dead')
          fault(
            `${me} reads the case of ${name(i)}`,
            setOperator(s, o, { at: 'read', row: i, epoch: s.rows[i]!.epoch }),
          )
    } else if (O.at === 'read') {
      if (locked(s, O.row)) return
      const row = s.rows[O.row]!
      const over = (t: State) => setOperator(t, o, { at: 'over' })
      const changed = row.st !== 'dead' || (rules.compare === 'state and epoch' && row.epoch !== O.epoch)
      const refused = rules.compare !== 'nothing' && changed
      if (refused) step(`${me} is refused: ${name(O.row)} has changed`, over(s))
      else if (what === 'redrive')
        step(`${me} redrives ${name(O.row)}`, over(set(s, O.row, { st: 'ready', epoch: row.epoch + 1 })))
      else if (what === 'discard') step(`${me} discards ${name(O.row)}`, over(finish(s, O.row, 'discarded')))
      else beginEdit(s, o, O, me, step)
    } else if (O.at === 'between') {
      const over = setOperator(s, o, { at: 'over' })
      if (rules.edit === 'insert, close')
        step(`${me} closes ${name(O.row)}`, set(over, O.row, { st: 'replaced', heir: O.heir }))
      else
        step(`${me} inserts ${name(O.heir)}`, set(over, O.heir, { st: 'ready', pos: s.rows[O.row]!.pos, held: true }))
    }
  }

  function beginEdit(s: State, o: number, O: Operator, me: string, step: Move<State>): void {
    const heir = s.rows.findIndex(
      (r, i) => i > R && r.st === 'none' && !s.operators.some(p => p.at === 'between' && p.heir === i),
    )
    const old = s.rows[O.row]!
    const what = `${name(O.row)} into ${name(heir)}`
    const between = setOperator(s, o, { at: 'between', heir })
    if (rules.edit === 'one transaction')
      step(`${me} edits ${what}`, setOperator(replace(s, O.row, heir), o, { at: 'over' }))
    else if (rules.edit === 'close, insert')
      step(
        `${me} closes ${name(O.row)}`,
        set(between, O.row, { st: 'replaced', heir, epoch: old.epoch + 1, held: false }),
      )
    else step(`${me} inserts ${name(heir)}`, set(between, heir, { st: 'ready', pos: old.pos, held: old.held }))
  }

  function moveSource(s: State, step: Move<State>): void {
    if (late && !s.arrived) {
      if (s.rows[X]!.st === 'none') step('X arrives', set(s, X, { st: 'ready', pos: end(s) }, { arrived: true }))
      else step('X arrives, duplicate', { ...s, arrived: true })
    }
    if (resend && s.sent === 'no') {
      if (rules.leased === 'believe')
        step(`R reads that X is ${s.rows[X]!.st}`, { ...s, sent: 'reading', read: s.rows[X]!.st })
      else resolve(s, 'R is sent', null, step)
    } else if (s.sent === 'reading') resolve(s, 'R is sent', s.read, step)
    else if (s.rows[R]!.st === 'waits') resolve(s, 'R looks again', null, step)
  }

  /** What becomes of R, by the state of the last heir of X; by `believed`, if it does not look again. */
  function resolve(s: State, label: string, believed: St | null, step: Move<State>): void {
    const t: State = { ...s, sent: 'yes', read: 'none' }
    const i = rules.follows ? lastHeir(s, X) : X
    const st = believed ?? s.rows[i]!.st
    const atEnd = (u: State): State => set(u, R, { st: 'ready', pos: end(u) })
    if (st === 'none') {
      const claimed = rules.claimsBoth ? set(t, X, { st: 'replaced', heir: R }) : t
      step(`${label}: X is not known, R is inserted`, atEnd(claimed))
    } else if (st === 'done') step(`${label}: ${name(i)} is done, duplicate`, set(t, R, { st: 'duplicate' }))
    else if (st === 'discarded' || st === 'replaced') step(`${label}: ${name(i)} is ${st}, R is inserted`, atEnd(t))
    else if (st !== 'leased' || rules.leased === 'fence') {
      if (believed !== null || !locked(s, i)) step(`${label}: replaces ${name(i)}`, replace(t, i, R))
    } else if (rules.leased === 'ignore')
      step(`${label} beside ${name(i)}`, set(t, R, { st: 'ready', pos: s.rows[i]!.pos }))
    else if (s.sent !== 'yes') step(`${label}: ${name(i)} is leased, R waits`, set(t, R, { st: 'waits' }))
  }

  return {
    initial: {
      rows: [
        late ? NONE : { ...NONE, st: 'ready', pos: 1 },
        late ? NONE : { ...NONE, st: 'ready', pos: 2 },
        ...Array.from({ length: 1 + edits }, () => NONE),
      ],
      workers: Array.from({ length: workers }, () => REST),
      operators: operators.map(() => ({ at: 'idle', row: 0, epoch: 0, heir: -1 })),
      sent: 'no',
      read: 'none',
      arrived: false,
      fails,
      beats,
      effects: 0,
      bad: null,
    },
    next,
    key: s => {
      const rows = s.rows
        .map(r => String.fromCharCode(STATES.indexOf(r.st), r.pos, r.epoch, r.held ? 1 : 0, r.heir + 1))
        .join('')
      const ws = s.workers
        .map(w => (w.at === 'idle' ? '' : String.fromCharCode(WORKER.indexOf(w.at), w.row, w.epoch)))
        .sort()
      const os = s.operators.map(o => String.fromCharCode(OPERATOR.indexOf(o.at), o.row, o.epoch, o.heir + 1))
      return `${rows}|${ws.join('|')}|${os.join('')}${s.sent}${s.read}${s.arrived}${s.fails}${s.beats}${s.effects}${s.bad ?? ''}`
    },
    check: s => s.bad,
    settled: s => {
      if (s.workers.some(w => w.at !== 'idle') || s.operators.some(o => o.at === 'between')) return false
      const dead = Math.min(...s.rows.map(r => (r.st === 'dead' ? r.pos : 99)))
      return s.rows.every(r => {
        if (r.st === 'ready' || r.st === 'behind') return r.pos > dead
        return r.st !== 'leased' && r.st !== 'retry' && r.st !== 'waits'
      })
    },
    show: s => s.rows.map((r, i) => `${name(i)} ${r.st}`).join(', '),
  }
}
