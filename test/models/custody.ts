/**
 * One identity row, and custody: two processes that receive one key from a transport, and the store's workers.
 *
 * The transport is contiguous: the owner of the key gets all that is not acked, in order. When ownership moves, the new owner begins at
 * the first message that is not acked and the old one goes on as a zombie, whose acks are dropped. A copy that was given out before
 * may have been started, so it goes to custody as a suspect.
 *
 * An attempt: idle → begun (the key is locked, the identity inserted; a conflict with a committed row → ack) → runs, or parks if
 * another unfinished delivery of the key exists → commit → ack. A failure is rolled back, then a custody transaction (key locked,
 * identity inserted, conflict → nothing) commits a retry or a dead letter, then the ack. A worker of the store: idle → claimed (not
 * committed) → leased → runs → done, retry or dead; it takes the key's first row only. The claim itself is examined in claim.ts.
 *
 * Under `onDead: 'pass'` a dead row does not hold its key, and an operator's redrive puts it at the end; a delayed message enters there
 * when it is due. Both make an unfinished row appear while an attempt may be running, which must be kept apart: `wake`.
 */
import type { Machine, Move } from './explore.ts'

export interface Rules {
  /** 2: the inbox knows what is done, the custody table what is not, and neither decides alone. */
  memories: 1 | 2
  /** What an attempt takes for a duplicate. */
  duplicate: 'any' | 'done'
  /** The attempt and custody lock the key. */
  keyLock: boolean
  /** How a woken row (redriven at the end, due) is kept from running beside an attempt: it takes the key's lock, or the claim tries it. */
  wake: 'locks' | 'claim' | 'free'
  /** How a follower is inserted; `behind` without a lock on the head. */
  follower: 'ready' | 'behind'
  ack: 'after' | 'before'
  handover: 'contiguous' | 'cancel'
  /** Copies that may have been started before go to custody. */
  suspects: boolean
}

export interface Setup {
  messages?: number
  workers?: number
  onDead?: 'block' | 'pass'
  /** Messages that are not due when they arrive, and those that kill their process. */
  later?: number[]
  killers?: number[]
  maxDeaths?: number
  fails?: number
  moves?: number
  kills?: number
  beats?: number
  operations?: number
  rules?: Partial<Rules>
}

export const CHOSEN: Rules = {
  memories: 1,
  duplicate: 'any',
  keyLock: true,
  wake: 'locks',
  follower: 'ready',
  ack: 'after',
  handover: 'contiguous',
  suspects: true,
}

const STATES = ['none', 'delayed', 'ready', 'suspect', 'leased', 'retry', 'behind', 'dead', 'passed', 'done'] as const
type St = (typeof STATES)[number]
const PROCESS = ['idle', 'begun', 'parks', 'runs', 'failed', 'custody', 'ack'] as const
const WORKER = ['idle', 'claimed', 'leased', 'runs'] as const

interface Row {
  st: St
  pos: number
  deaths: number
}

interface Process {
  at: (typeof PROCESS)[number]
  /** What it was given and has not begun, and which of that had been given out before: bit masks, worked off from the lowest. */
  buffer: number
  again: number
  /** The message in hand, or -1, and whether it came over a channel that is closed by now. */
  hand: number
  old: boolean
  /** What custody is about to write, and the place that the insert drew. */
  as: St
  pos: number
}

interface Worker {
  at: (typeof WORKER)[number]
  row: number
  /** The row still carries its epoch. */
  mine: boolean
}

export interface State {
  rows: readonly Row[]
  processes: readonly Process[]
  workers: readonly Worker[]
  owner: number
  acked: number
  given: number
  /** Only with two memories: the inbox. */
  inbox: number
  effects: number
  /** Messages that left the order of their key: passed or delayed. */
  loose: number
  budget: { fails: number; moves: number; kills: number; beats: number; operations: number }
  bad: string | null
}

const REST = { at: 'idle', hand: -1, old: false, as: 'none', pos: 0 } as const
const FREE: Worker = { at: 'idle', row: 0, mine: false }
const has = (mask: number, i: number) => ((mask >> i) & 1) === 1
const lowest = (mask: number) => 31 - Math.clz32(mask & -mask)
const inOrder = (r: Row) => r.st !== 'none' && r.st !== 'done' && r.st !== 'passed' && r.st !== 'delayed'

export function custody(setup: Setup): Machine<State> {
  const { messages = 3, workers = 1, onDead = 'block', later = [], killers = [], maxDeaths = 2 } = setup
  const { fails = 0, moves = 0, kills = 0, beats = 0, operations = 0 } = setup
  const rules: Rules = { ...CHOSEN, ...setup.rules }
  const all = (1 << messages) - 1

  const setRow = (s: State, m: number, to: Partial<Row>) => s.rows.map((r, i) => (i === m ? { ...r, ...to } : r))
  const setProcess = (s: State, p: number, to: Partial<Process>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    processes: s.processes.map((old, i) => (i === p ? { ...old, ...to } : old)),
  })
  const setWorker = (s: State, w: number, to: Partial<Worker>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    workers: s.workers.map((old, i) => (i === w ? { ...old, ...to } : old)),
  })
  const spend = (s: State, what: keyof State['budget']) => ({ ...s.budget, [what]: s.budget[what] - 1 })
  const inTransaction = (p: Process) => p.at === 'begun' || p.at === 'parks' || p.at === 'runs' || p.at === 'custody'
  const keyFree = (s: State, self: number) =>
    !rules.keyLock || !s.processes.some((p, i) => i !== self && inTransaction(p))
  const identityFree = (s: State, self: number, m: number) =>
    !s.processes.some((p, i) => i !== self && inTransaction(p) && p.hand === m)
  const draw = (s: State) => Math.max(0, ...s.rows.map(r => r.pos), ...s.processes.map(p => p.pos)) + 1
  const unacked = (s: State) => all & ~s.acked
  const conflicts = (s: State, m: number) => {
    if (rules.memories === 2) return has(s.inbox, m)
    return rules.duplicate === 'any' ? s.rows[m]!.st !== 'none' : s.rows[m]!.st === 'done'
  }

  function next(s: State, step: Move<State>, fault: Move<State>): void {
    for (let p = 0; p < 2; p++) moveProcess(s, p, step, fault)
    for (let w = 0; w < workers; w++) moveWorker(s, w, step, fault)
    moveRows(s, step, fault)
    moveTransport(s, fault)
  }

  function moveProcess(s: State, p: number, step: Move<State>, fault: Move<State>): void {
    const P = s.processes[p]!
    if (P.at === 'idle') {
      if (P.buffer !== 0) begin(s, p, step)
      return
    }
    const m = P.hand
    const me = `P${p + 1} m${m + 1}`
    if (P.at === 'begun') {
      const held = s.rows.some((r, i) => i !== m && inOrder(r))
      if (held) step(`${me}: key is held`, setProcess(s, p, { at: 'parks', pos: draw(s) }))
      else step(`${me}: handler runs`, setProcess(s, p, { at: 'runs' }))
    } else if (P.at === 'parks') {
      const rows = setRow(s, m, { st: rules.follower, pos: P.pos })
      step(`${me}: COMMIT as ${rules.follower}`, setProcess(s, p, { at: 'ack', pos: 0 }, { rows }))
    } else if (P.at === 'runs') run(s, p, m, me, step, fault)
    else if (P.at === 'failed') {
      if (rules.memories === 1 && s.rows[m]!.st !== 'none')
        step(`${me}: conflict in custody`, setProcess(s, p, { at: 'ack' }))
      else for (const as of ['retry', onDead === 'pass' ? 'passed' : 'dead'] as const) take(s, p, m, me, as, step)
    } else if (P.at === 'custody') {
      const known = rules.memories === 2 && s.rows[m]!.st !== 'none'
      const rows = known ? s.rows : setRow(s, m, { st: P.as, pos: P.pos })
      const loose = P.as === 'passed' || P.as === 'delayed' ? s.loose | (1 << m) : s.loose
      const both =
        rules.memories === 2 && has(s.inbox, m) && P.as === 'dead' ? `both: m${m + 1} is done and dead` : s.bad
      const to: Partial<Process> = { at: 'ack', as: 'none', pos: 0 }
      const settled = rules.ack === 'before' && P.as !== 'suspect' ? REST : to
      step(`${me}: COMMIT custody, ${P.as}`, setProcess(s, p, settled, { rows, loose, bad: both }))
    } else if (P.at === 'ack') {
      const counts = !P.old || rules.handover === 'cancel'
      const label = counts ? `${me}: ack` : `${me}: ack, dropped (old channel)`
      step(label, setProcess(s, p, REST, { acked: counts ? s.acked | (1 << m) : s.acked }))
    }
  }

  /** Takes the first message of the buffer in hand. */
  function begin(s: State, p: number, step: Move<State>): void {
    const P = s.processes[p]!
    const m = lowest(P.buffer)
    const me = `P${p + 1} m${m + 1}`
    const left = P.buffer & ~(1 << m)
    const hand = { hand: m, old: s.owner !== p, buffer: left, again: P.again & left }
    const taken = setProcess(s, p, hand)
    if (conflicts(s, m)) step(`${me}: conflict, duplicate`, setProcess(taken, p, { at: 'ack' }))
    else if (has(P.again, m) && rules.suspects) take(taken, p, m, me, 'suspect', step)
    else if (later.includes(m)) take(taken, p, m, me, 'delayed', step)
    else if (keyFree(s, p) && identityFree(s, p, m)) step(`${me}: BEGIN`, setProcess(taken, p, { at: 'begun' }))
  }

  /** A custody transaction begins: it locks the key, then the identity. */
  function take(s: State, p: number, m: number, me: string, as: St, step: Move<State>): void {
    if (!keyFree(s, p) || !identityFree(s, p, m)) return
    const early = rules.ack === 'before' && as !== 'suspect' && !s.processes[p]!.old ? 1 << m : 0
    const to: Partial<Process> = { at: 'custody', as, pos: draw(s) }
    step(`${me}: ${early ? 'ack, then ' : ''}BEGIN custody as ${as}`, setProcess(s, p, to, { acked: s.acked | early }))
  }

  function run(s: State, p: number, m: number, me: string, step: Move<State>, fault: Move<State>): void {
    if (killers.includes(m)) {
      step(`${me}: kills the process`, restart(s, p))
      return
    }
    const more = { ...effect(s, m), rows: rules.memories === 2 ? s.rows : setRow(s, m, { st: 'done' }) }
    step(
      `${me}: COMMIT effect`,
      setProcess(s, p, { at: 'ack' }, rules.memories === 2 ? { ...more, inbox: s.inbox | (1 << m) } : more),
    )
    if (s.budget.fails > 0)
      fault(`${me}: handler fails, rollback`, setProcess(s, p, { at: 'failed' }, { budget: spend(s, 'fails') }))
  }

  const restart = (s: State, p: number, budget = s.budget): State => {
    const buffer = s.owner === p ? unacked(s) : 0
    return setProcess(s, p, { ...REST, buffer, again: buffer & s.given }, { budget })
  }

  /** What the effect of `m` does to the state, and what is wrong with it. */
  function effect(s: State, m: number): Partial<State> {
    let bad = s.bad
    if (has(s.effects, m)) bad ??= `twice: m${m + 1} takes effect a second time`
    for (let i = 0; i < m; i++)
      if (!has(s.effects, i) && !has(s.loose, i) && !has(s.loose, m) && !gone(s, i))
        bad ??= `order: m${m + 1} before m${i + 1}`
    return { effects: s.effects | (1 << m), bad }
  }
  const gone = (s: State, m: number) => s.rows[m]!.st === 'passed'

  function moveWorker(s: State, w: number, step: Move<State>, fault: Move<State>): void {
    const W = s.workers[w]!
    const me = `W${w + 1} m${W.row + 1}`
    if (W.at === 'idle') {
      if (s.workers.slice(0, w).some(o => o.at === 'idle')) return
      claim(s, w, step)
    } else if (W.at === 'claimed') {
      step(
        `${me}: lease commits`,
        setWorker(s, w, { at: 'leased', mine: true }, { rows: setRow(s, W.row, { st: 'leased' }) }),
      )
    } else if (W.at === 'leased') {
      if (W.mine) step(`${me}: handler runs`, setWorker(s, w, { at: 'runs' }))
      else step(`${me}: fenced`, setWorker(s, w, FREE))
      if (W.mine && s.budget.beats > 0) {
        const rows = setRow(s, W.row, { st: 'suspect' })
        fault(
          `the beat of W${w + 1} runs out, m${W.row + 1} is a suspect`,
          setWorker(s, w, { mine: false }, { rows, budget: spend(s, 'beats') }),
        )
      }
    } else settle(s, w, W.row, me, step, fault)
  }

  function claim(s: State, w: number, step: Move<State>): void {
    const order = s.rows
      .map((_, i) => i)
      .filter(i => inOrder(s.rows[i]!))
      .sort((a, b) => s.rows[a]!.pos - s.rows[b]!.pos)
    const first = order[0]
    if (first === undefined || (s.rows[first]!.st !== 'ready' && s.rows[first]!.st !== 'suspect')) return
    if (order.some(i => s.rows[i]!.st === 'leased') || s.workers.some(o => o.at === 'claimed')) return
    if (rules.wake === 'claim' && !keyFree(s, -1)) return
    step(`W${w + 1} m${first + 1}: claim`, setWorker(s, w, { at: 'claimed', row: first, mine: true }))
  }

  function settle(s: State, w: number, m: number, me: string, step: Move<State>, fault: Move<State>): void {
    if (killers.includes(m)) {
      const deaths = s.rows[m]!.deaths + 1
      const st = deaths < maxDeaths ? 'suspect' : 'dead'
      step(`${me}: kills the process, ${st}`, setWorker(s, w, FREE, { rows: setRow(s, m, { st, deaths }) }))
      return
    }
    const ended = (rows: readonly Row[]) => rows.map(r => (r.st === 'behind' ? { ...r, st: 'ready' as const } : r))
    if (rules.memories === 2 && has(s.inbox, m))
      step(`${me}: inbox says done`, setWorker(s, w, FREE, { rows: setRow(s, m, { st: 'done' }) }))
    else {
      const more = {
        ...effect(s, m),
        rows: ended(setRow(s, m, { st: 'done' })),
        inbox: s.inbox | (rules.memories === 2 ? 1 << m : 0),
      }
      step(`${me}: COMMIT effect`, setWorker(s, w, FREE, more))
    }
    if (s.budget.fails === 0) return
    for (const st of ['retry', onDead === 'pass' ? 'passed' : 'dead'] as const) {
      const rows = setRow(s, m, { st })
      const loose = st === 'passed' ? s.loose | (1 << m) : s.loose
      fault(
        `${me}: fails -> ${st}`,
        setWorker(s, w, FREE, { rows: st === 'passed' ? ended(rows) : rows, loose, budget: spend(s, 'fails') }),
      )
    }
  }

  function moveRows(s: State, step: Move<State>, fault: Move<State>): void {
    const wakes = rules.wake !== 'locks' || keyFree(s, -1)
    for (let m = 0; m < messages; m++) {
      const st = s.rows[m]!.st
      const set = (to: Partial<Row>, more: Partial<State> = {}): State => ({ ...s, rows: setRow(s, m, to), ...more })
      if (st === 'retry') step(`m${m + 1} is due again`, set({ st: 'ready' }))
      if (st === 'delayed' && wakes) step(`m${m + 1} is due, enters the order`, set({ st: 'ready', pos: draw(s) }))
      if (s.budget.operations === 0) continue
      const budget = spend(s, 'operations')
      if (st === 'dead') fault(`operator redrives m${m + 1}`, set({ st: 'ready', deaths: 0 }, { budget }))
      if (st === 'passed' && wakes)
        fault(`operator redrives m${m + 1} at the end`, set({ st: 'ready', pos: draw(s) }, { budget }))
    }
  }

  function moveTransport(s: State, fault: Move<State>): void {
    if (s.budget.kills > 0)
      for (let p = 0; p < 2; p++)
        if (s.processes[p]!.buffer !== 0 || s.processes[p]!.hand >= 0)
          fault(`P${p + 1} is killed`, restart(s, p, spend(s, 'kills')))
    if (s.budget.moves === 0) return
    const from = s.processes[s.owner]!
    const owner = 1 - s.owner
    // Cancelled, the old one keeps what it has in hand, acks it later, and drops the rest; the new one gets all but that.
    const cancel = rules.handover === 'cancel'
    const buffer = unacked(s) & ~(cancel && from.hand >= 0 ? 1 << from.hand : 0)
    const again = cancel ? 0 : buffer & s.given
    const given = setProcess(s, owner, { buffer, again }, { owner, budget: spend(s, 'moves') })
    fault(
      `ownership moves to P${owner + 1}`,
      setProcess(given, s.owner, cancel ? { buffer: 0, again: 0 } : { old: true }),
    )
  }

  function check(s: State): string | null {
    if (s.bad !== null) return s.bad
    for (let m = 0; m < messages; m++)
      if (
        has(s.acked, m) &&
        s.rows[m]!.st === 'none' &&
        !has(s.inbox, m) &&
        !s.processes.some(p => has(p.buffer, m) || p.hand === m)
      )
        return `lost: m${m + 1} is acked, and nothing knows it`
    const running = [
      ...s.processes.flatMap((p, i) => (p.at === 'runs' ? [`P${i + 1}`] : [])),
      ...s.workers.flatMap((w, i) => (w.at === 'runs' ? [`W${i + 1}`] : [])),
    ]
    return running.length > 1 ? `together: ${running.join(' and ')} run the key at once` : null
  }

  function settled(s: State): boolean {
    if (s.acked !== all || s.processes.some(p => p.buffer !== 0 || p.hand >= 0) || s.workers.some(w => w.at !== 'idle'))
      return false
    const dead = s.rows.reduce((pos, r) => (r.st === 'dead' ? Math.min(pos, r.pos) : pos), Number.POSITIVE_INFINITY)
    return s.rows.every((r, m) => {
      if (r.st === 'ready' || r.st === 'behind' || r.st === 'suspect') return r.pos > dead
      return r.st === 'done' || r.st === 'dead' || r.st === 'passed' || has(s.inbox, m)
    })
  }

  function key(s: State): string {
    const places = [...new Set([...s.rows.map(r => r.pos), ...s.processes.map(p => p.pos)])].sort((a, b) => a - b)
    const rank = (pos: number) => places.indexOf(pos) + (places[0] === 0 ? 0 : 1)
    const rows = s.rows.map(r => String.fromCharCode(STATES.indexOf(r.st), rank(r.pos), r.deaths)).join('')
    const ps = s.processes.map(p =>
      String.fromCharCode(
        PROCESS.indexOf(p.at),
        p.buffer,
        p.again,
        p.hand + 1,
        p.hand >= 0 && p.old ? 1 : 0,
        STATES.indexOf(p.as),
        rank(p.pos),
      ),
    )
    const ws = s.workers
      .map(w => String.fromCharCode(WORKER.indexOf(w.at), w.at === 'idle' ? 0 : w.row, w.mine ? 1 : 0))
      .sort()
    const b = s.budget
    const rest = String.fromCharCode(
      s.owner,
      s.acked,
      s.inbox,
      s.effects,
      s.loose,
      b.fails,
      b.moves,
      b.kills,
      b.beats,
      b.operations,
    )
    return rows + ps.join('') + ws.join('') + rest + (s.bad ?? '')
  }

  return {
    initial: {
      rows: Array.from({ length: messages }, () => ({ st: 'none', pos: 0, deaths: 0 })),
      processes: [
        { ...REST, buffer: all, again: 0 },
        { ...REST, buffer: 0, again: 0 },
      ],
      workers: Array.from({ length: workers }, () => FREE),
      owner: 0,
      acked: 0,
      given: all,
      inbox: 0,
      effects: 0,
      loose: 0,
      budget: { fails, moves, kills, beats, operations },
      bad: null,
    },
    next,
    key,
    check,
    settled,
    show: s => s.rows.map((r, i) => `m${i + 1} ${has(s.inbox, i) ? 'done' : r.st}`).join(', '),
  }
}
