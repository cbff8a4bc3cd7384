/**
 * The store's claim and its hole rule, as PostgreSQL runs them under READ COMMITTED.
 *
 * A claim is a transaction: a statement takes a snapshot, walks the ready rows in the order of `pos` and locks each `FOR UPDATE
 * SKIP LOCKED`; a row that changed since the snapshot is judged again when it is locked (EvalPlanQual) and dropped if it is no longer
 * ready. Then the hole rule decides what is kept, followers are marked, leases are written, and a commit makes all of it visible
 * and ends the locks. With `statements: 2` the rule is judged by a second statement, whose snapshot is younger than the locks.
 *
 * A row: hidden (its sender has not committed) or delayed → ready ⇄ leased → done | retry → ready | dead → redriven, discarded
 * or unblocked (passed); ready → behind (waits for its key) → ready, by the end of a row that carries `held`. A worker: idle → locking
 * → judging → chosen → leased → running (a business transaction, its rows locked) → settled → idle; after a failure it runs its rows one
 * after another. A lost lease is a row that is no longer in its owner's `mine`: the row's epoch is not the owner's any more.
 *
 * Faults: a handler fails, a beat runs out (the owner goes on as a zombie, the reaper takes its rows one by one), the server ends a
 * transaction, a kill, operators. The rules that can be broken are `Rules`; the tests say what each broken one leads to.
 */
import type { Machine, Move } from './explore.ts'

export interface Rules {
  /** 2: the hole rule is judged by a statement of its own, after the locks. 1: by the snapshot of the locking statement. */
  statements: 1 | 2
  /**
   * Claims of the consumer exclude each other until they commit: `before` the first statement takes its snapshot, or `inside` it, when
   * the snapshot is older than the lock.
   */
  serial: 'no' | 'before' | 'inside'
  /**
   * What a claim keeps of a key. `head`: all it locked, if the key's first row is among them. `before`: what stands before the hole.
   * `leased`: the same, and nothing if the hole is leased in the snapshot. `locked`: nothing unless the hole can be share-locked now,
   * unleased.
   */
  hole: 'head' | 'before' | 'leased' | 'locked'
  /**
   * How many rows are asked so, from the hole on and up to the first that waits: each row that became visible late in front of a
   * leased one can hide it.
   */
  look: number
  /**
   * When the rows after the hole are marked as behind. `hole`: the hole is share-locked and is a retry, dead or behind. `first`: the
   * key's first row is share-locked and is a retry or dead. `unlocked`: the hole looks so in the snapshot. `middle`: like `first`, but a
   * predecessor that looks behind in the snapshot will do too. `never`: not at all.
   */
  mark: 'hole' | 'first' | 'unlocked' | 'middle' | 'never'
  /** Followers that are released carry `held`, so that their own end releases the next. */
  heldOnRelease: boolean
  /** The business transaction locks and counts its rows at its own epoch. */
  fence: boolean
  /** What a fenced batch still owns is run again instead of released. */
  rerun: boolean
}

export interface Setup {
  /** The key of each row, -1 for none; rows are in the order of their `pos`. */
  keys: number[]
  start?: State['rows'][number]['st'][]
  workers?: number
  /** How many rows one claim locks at most. */
  limit?: number
  /** How many followers one end releases. */
  chunk?: number
  onDead?: 'block' | 'pass'
  fails?: number
  faults?: number
  operations?: number
  rules?: Partial<Rules>
}

export const CHOSEN: Rules = {
  statements: 2,
  serial: 'no',
  hole: 'locked',
  look: 1,
  mark: 'hole',
  heldOnRelease: true,
  fence: true,
  rerun: false,
}

const STATES = ['hidden', 'delayed', 'ready', 'retry', 'behind', 'dead', 'passed', 'done', 'discarded'] as const
const PHASES = ['idle', 'locking', 'judging', 'chosen', 'leased', 'running', 'settled', 'failed'] as const

interface Row {
  st: (typeof STATES)[number]
  pos: number
  leased: boolean
  suspect: boolean
  held: boolean
}

/** Sets of rows and of keys are bit masks. */
interface Worker {
  at: (typeof PHASES)[number]
  /** What the claim's first statement sees, while it locks. */
  snap: readonly Row[] | null
  tried: number
  locks: number
  shares: number
  take: number
  mark: number
  todo: number
  mine: number
  /** Rows whose sender had not committed when this batch was chosen: nobody promises their order. */
  unseen: number
  single: boolean
  culprit: number
  stopped: number
  /** Its beat has run out; it may be paused or dead, or only think that it is well. */
  late: boolean
}

export interface State {
  rows: readonly Row[]
  workers: readonly Worker[]
  fails: number
  faults: number
  operations: number
  bad: string | null
}

const IDLE: Worker = {
  at: 'idle',
  snap: null,
  tried: 0,
  locks: 0,
  shares: 0,
  take: 0,
  mark: 0,
  todo: 0,
  mine: 0,
  unseen: 0,
  single: false,
  culprit: -1,
  stopped: 0,
  late: false,
}

const has = (mask: number, i: number) => ((mask >> i) & 1) === 1
const inOrder = (r: Row) => r.st === 'ready' || r.st === 'retry' || r.st === 'behind' || r.st === 'dead'
const claiming = (w: Worker) => w.at === 'locking' || w.at === 'judging' || w.at === 'chosen'
const claimable = (r: Row) => r.st === 'ready' && !r.leased
const finished = (r: Row) => r.st === 'done' || r.st === 'discarded'
const list = (mask: number) => {
  const out: number[] = []
  for (let i = 0; mask >> i !== 0; i++) if (has(mask, i)) out.push(i)
  return out
}
const mask = (rows: number[]) => rows.reduce((all, r) => all | (1 << r), 0)
const names = (rows: number) =>
  rows === 0
    ? 'nothing'
    : list(rows)
        .map(i => `m${i + 1}`)
        .join(' ')

export function claim(setup: Setup): Machine<State> {
  const { keys, start = [], workers = 2, limit = 9, chunk = 9, onDead = 'block' } = setup
  const { fails = 0, faults = 0, operations = 0 } = setup
  const rules: Rules = { ...CHOSEN, ...setup.rules }

  const byPos = (rows: readonly Row[], mask: number) => list(mask).sort((a, b) => rows[a]!.pos - rows[b]!.pos)
  const sameKey = (a: number, b: number) => keys[a] === keys[b] && keys[a] !== -1
  const ofKey = (k: number) => keys.reduce((mask, key, i) => (key === k ? mask | (1 << i) : mask), 0)
  const where = (rows: readonly Row[], test: (r: Row) => boolean) =>
    rows.reduce((mask, r, i) => (test(r) ? mask | (1 << i) : mask), 0)
  const change = (rows: readonly Row[], mask: number, to: (r: Row) => Partial<Row>) =>
    rows.map((r, i) => (has(mask, i) ? { ...r, ...to(r) } : r))
  const last = (rows: readonly Row[]) => Math.max(...rows.map(r => r.pos)) + 1

  /** Rows that others than `self` hold locked: for update alone, or in any way. */
  const lockedBy = (s: State, self: number, shares: boolean) =>
    s.workers.reduce((mask, w, i) => (i === self ? mask : mask | w.locks | (shares ? w.shares : 0)), 0)
  const free = (s: State, self: number, mask: number) => (mask & lockedBy(s, self, true)) === 0

  const put = (s: State, i: number, w: Partial<Worker>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    workers: s.workers.map((old, at) => (at === i ? { ...old, ...w } : old)),
  })

  /** The followers that the end of `ended` releases: per key of a row that carries `held`, the first `chunk` that wait. Null: wait for a lock. */
  function followers(s: State, self: number, ended: number): number | null {
    const others = lockedBy(s, self, true)
    let out = 0
    for (const i of list(ended)) {
      if (!s.rows[i]!.held || keys[i] === -1) continue
      const waiting = ofKey(keys[i]!) & where(s.rows, r => r.st === 'behind')
      for (const f of byPos(s.rows, waiting).slice(0, chunk)) out |= 1 << f
    }
    return (out & others) === 0 ? out : null
  }
  const release = (rows: readonly Row[], mask: number) =>
    change(rows, mask, r => ({ st: 'ready', held: rules.heldOnRelease || r.held }))

  function next(s: State, step: Move<State>, fault: Move<State>): void {
    for (let i = 0; i < s.workers.length; i++) {
      moveWorker(s, i, step, fault)
      loseWorker(s, i, step, fault)
    }
    moveRows(s, step)
    operate(s, fault)
  }

  function moveWorker(s: State, i: number, step: Move<State>, fault: Move<State>): void {
    const w = s.workers[i]!
    const me = `W${i + 1}`
    if (w.at === 'idle') {
      // Two idle workers are the same worker.
      if (s.workers.slice(0, i).some(o => o.at === 'idle')) return
      if (rules.serial === 'before' && s.workers.some(o => claiming(o))) return
      if (s.rows.some(claimable)) step(`${me} begins a claim`, put(s, i, { at: 'locking', snap: s.rows }))
    } else if (w.at === 'locking') {
      if (
        rules.serial === 'inside' &&
        w.tried === 0 &&
        s.workers.some(o => o.tried !== 0 || (claiming(o) && o.at !== 'locking'))
      )
        return
      lockNext(s, i, me, step)
    } else if (w.at === 'judging') judge(s, i, me, step)
    else if (w.at === 'chosen') commitClaim(s, i, me, step)
    else if (w.at === 'leased') begin(s, i, me, step)
    else if (w.at === 'running') finish(s, i, me, step, fault)
    else if (w.at === 'settled') commit(s, i, me, w.take, w.mark, step)
    else if (w.at === 'failed') recordFailure(s, i, me, step)
  }

  function lockNext(s: State, i: number, me: string, step: Move<State>): void {
    const w = s.workers[i]!
    const left = where(w.snap!, claimable) & ~w.tried
    const row = byPos(w.snap!, left)[0]
    if (row === undefined || list(w.locks).length === limit) {
      if (w.locks === 0) {
        step(`${me} finds nothing`, put(s, i, IDLE))
        return
      }
      if (rules.statements === 1) {
        judge(s, i, me, step)
        return
      }
      step(`${me} looks at its keys again`, put(s, i, { at: 'judging', snap: s.rows, tried: 0 }))
      return
    }
    const tried = w.tried | (1 << row)
    const ok = free(s, i, 1 << row) && claimable(s.rows[row]!)
    if (ok) step(`${me} locks m${row + 1}`, put(s, i, { tried, locks: w.locks | (1 << row) }))
    else step(`${me} skips m${row + 1}`, put(s, i, { tried }))
  }

  function judge(s: State, i: number, me: string, step: Move<State>): void {
    const { locks, snap } = s.workers[i]!
    const view = snap!
    let keep = locks & ofKey(-1)
    let mark = 0
    let shares = 0
    for (const k of new Set(list(locks).map(r => keys[r]!))) {
      if (k === -1) continue
      const ofThis = judgeKey(s, i, view, locks & ofKey(k), byPos(view, ofKey(k) & where(view, inOrder)))
      keep |= ofThis.keep
      mark |= ofThis.mark
      shares |= ofThis.shares
    }
    // A batch stops before a suspect; a suspect in front goes alone.
    const ordered = byPos(view, keep)
    const cut = ordered.findIndex(r => s.rows[r]!.suspect)
    const take = mask(cut < 0 ? ordered : ordered.slice(0, Math.max(cut, 1)))
    if (take === 0 && mark === 0) {
      step(`${me} takes nothing`, put(s, i, IDLE))
      return
    }
    const unseen = where(view, r => r.st === 'hidden')
    const label = `${me} chooses ${names(take)}${mark === 0 ? '' : `, marks ${names(mark)} behind`}`
    step(label, put(s, i, { at: 'chosen', snap: null, tried: 0, shares, take, mark, unseen }))
  }

  /** The hole rule for one key: of its `ordered` rows in the snapshot, this claim holds `locked`. */
  function judgeKey(s: State, self: number, view: readonly Row[], locked: number, ordered: number[]) {
    const rest = ordered.filter(r => !has(locked, r))
    const hole = rest[0]
    if (hole === undefined) return { keep: locked, mark: 0, shares: 0 }
    const others = lockedBy(s, self, false)
    const before = locked & where(view, r => r.pos < view[hole]!.pos)
    const after = locked & ~before
    const sharable = (r: number) => !has(others, r) && inOrder(s.rows[r]!) && !s.rows[r]!.leased
    const asked = rest.slice(0, rules.look)
    const run = asked.slice(0, asked.findIndex(r => view[r]!.st !== 'ready') + 1 || asked.length)
    let keep = before
    let shares = 0
    if (rules.hole === 'head') return { keep: has(locked, ordered[0]!) ? locked : 0, mark: 0, shares }
    if (rules.hole === 'leased' && run.some(r => view[r]!.leased)) keep = 0
    if (rules.hole === 'locked') {
      if (run.every(sharable)) shares = mask(run)
      else keep = 0
    }
    const waits = (r: Row, behind: boolean) => r.st === 'retry' || r.st === 'dead' || (behind && r.st === 'behind')
    const firm = (r: number, behind: boolean) => sharable(r) && waits(s.rows[r]!, behind)
    if (rules.mark === 'hole' && firm(hole, true)) return { keep, mark: after, shares: shares | (1 << hole) }
    if (rules.mark === 'unlocked' && waits(view[hole]!, true)) return { keep, mark: after, shares }
    const first = ordered[0]!
    if (rules.mark === 'first' || rules.mark === 'middle') {
      if (firm(first, false) && waits(view[hole]!, true)) return { keep, mark: after, shares: shares | (1 << first) }
    }
    if (rules.mark !== 'middle') return { keep, mark: 0, shares }
    const middle = rest.find(r => view[r]!.st === 'behind')
    const passed = (r: Row) => middle !== undefined && r.pos > view[middle]!.pos
    return { keep, mark: locked & where(view, passed), shares }
  }

  function commitClaim(s: State, i: number, me: string, step: Move<State>): void {
    const w = s.workers[i]!
    let rows = change(s.rows, w.take, () => ({ leased: true }))
    rows = change(rows, w.mark, () => ({ st: 'behind' }))
    if (w.take === 0) {
      step(`${me} commits its marks`, put(s, i, IDLE, { rows }))
      return
    }
    const leased: Worker = { ...IDLE, at: 'leased', todo: w.take, mine: w.take, unseen: w.unseen }
    step(`${me} commits its lease of ${names(w.take)}`, put(s, i, leased, { rows }))
  }

  /** The rows of the next business transaction: the batch, or after a failure the first whose key did not fail. */
  function begin(s: State, i: number, me: string, step: Move<State>): void {
    const w = s.workers[i]!
    const open = byPos(s.rows, w.todo).filter(r => keys[r] === -1 || !has(w.stopped, keys[r]!))
    const first = open[0]
    if (first === undefined) {
      giveBack(s, i, me, step)
      return
    }
    if (w.single && first === w.culprit) {
      step(`${me} m${first + 1} fails again`, put(s, i, { at: 'failed' }))
      return
    }
    const rows = w.single ? 1 << first : w.todo
    if (!free(s, i, rows)) return
    if (!rules.fence || (rows & ~w.mine) === 0) {
      step(`${me} runs ${names(rows)}`, put(s, i, { at: 'running', locks: rows }))
      return
    }
    if (!rules.rerun) {
      giveBack(s, i, `${me} is fenced,`, step)
      return
    }
    const todo = w.todo & w.mine
    step(`${me} is fenced, will run ${names(todo)} again`, put(s, i, todo === 0 ? IDLE : { todo }))
  }

  function giveBack(s: State, i: number, me: string, step: Move<State>): void {
    const w = s.workers[i]!
    const mine = w.todo & w.mine
    if (!free(s, i, mine)) return
    step(`${me} gives back ${names(mine)}`, put(s, i, IDLE, { rows: change(s.rows, mine, () => ({ leased: false })) }))
  }

  function finish(s: State, i: number, me: string, step: Move<State>, fault: Move<State>): void {
    const w = s.workers[i]!
    const freed = followers(s, i, w.locks)
    if (freed === null) return
    if (list(w.locks).some(r => s.rows[r]!.held)) {
      // The release sees what is committed now; its own commit comes later.
      const to: Partial<Worker> = { at: 'settled', take: w.locks, mark: freed, locks: w.locks | freed }
      step(`${me} settles ${names(w.locks)}, releases ${names(freed)}`, put(s, i, to))
    } else commit(s, i, me, w.locks, 0, step)
    if (s.fails === 0) return
    for (const culprit of list(w.locks)) {
      const alone = w.locks === 1 << culprit
      const to: Partial<Worker> = { at: alone ? 'failed' : 'leased', locks: 0, single: true, culprit }
      fault(`${me} m${culprit + 1} fails, rollback`, put(s, i, to, { fails: s.fails - 1 }))
    }
  }

  function commit(s: State, i: number, me: string, done: number, freed: number, step: Move<State>): void {
    const w = s.workers[i]!
    const ended = change(s.rows, done, () => ({ st: 'done', leased: false, suspect: false, held: false }))
    const todo = w.todo & ~done
    const to =
      todo === 0 ? IDLE : { ...w, at: 'leased' as const, todo, mine: w.mine & ~done, locks: 0, take: 0, mark: 0 }
    step(`${me} COMMIT ${names(done)}`, put(s, i, to, { rows: release(ended, freed), bad: wrong(s, w, done) }))
  }

  /** What is wrong with the effects of `done`, which worker `w` commits now. */
  function wrong(s: State, w: Worker, done: number): string | null {
    for (const r of list(done)) {
      if (finished(s.rows[r]!)) return `twice: m${r + 1} takes effect a second time`
      for (let q = 0; q < keys.length; q++) {
        if (q === r || !sameKey(q, r) || has(done, q) || has(w.unseen, q)) continue
        if (inOrder(s.rows[q]!) && s.rows[q]!.pos < s.rows[r]!.pos)
          return `order: m${r + 1} takes effect before m${q + 1}`
      }
    }
    return null
  }

  function recordFailure(s: State, i: number, me: string, step: Move<State>): void {
    const w = s.workers[i]!
    const r = w.culprit
    if (!free(s, i, 1 << r)) return
    if (rules.fence && !has(w.mine, r)) {
      giveBack(s, i, `${me} is fenced,`, step)
      return
    }
    const stopped = keys[r] === -1 ? w.stopped : w.stopped | (1 << keys[r]!)
    const to: Partial<Worker> = {
      at: 'leased',
      single: true,
      culprit: -1,
      stopped,
      todo: w.todo & ~(1 << r),
      mine: w.mine & ~(1 << r),
    }
    const rest = { leased: false, suspect: false, held: true }
    step(`${me} m${r + 1} -> retry`, put(s, i, to, { rows: change(s.rows, 1 << r, () => ({ st: 'retry', ...rest })) }))
    const dead = onDead === 'pass' ? closed(s, i, r, 'passed') : change(s.rows, 1 << r, () => ({ st: 'dead', ...rest }))
    if (dead !== null)
      step(`${me} m${r + 1} -> ${onDead === 'pass' ? 'passed' : 'dead'}`, put(s, i, to, { rows: dead }))
  }

  /** Row `r` stops counting for its key, and its followers are released; null while a follower is locked. */
  function closed(s: State, self: number, r: number, st: 'passed' | 'discarded'): Row[] | null {
    const freed = followers(s, self, 1 << r)
    if (freed === null || !free(s, self, 1 << r)) return null
    return release(
      change(s.rows, 1 << r, () => ({ st, leased: false, suspect: false, held: false })),
      freed,
    )
  }

  function loseWorker(s: State, i: number, step: Move<State>, fault: Move<State>): void {
    const w = s.workers[i]!
    const me = `W${i + 1}`
    const owned = w.mine & w.todo
    if (w.late)
      for (const r of list(owned))
        if (free(s, -1, 1 << r)) {
          const rows = change(s.rows, 1 << r, () => ({ leased: false, suspect: true }))
          step(`reaper: m${r + 1} of ${me} becomes a suspect`, put(s, i, { mine: w.mine & ~(1 << r) }, { rows }))
        }
    if (s.faults === 0 || w.at === 'idle') return
    const less = { faults: s.faults - 1 }
    if (owned !== 0) {
      if (!w.late) fault(`the beat of ${me} runs out`, put(s, i, { late: true }, less))
      fault(`${me} is killed`, put(s, i, IDLE, less))
    }
    const back = { at: 'leased' as const, locks: 0, take: 0, mark: 0 }
    if (w.at === 'running' || w.at === 'settled')
      fault(`the server ends the transaction of ${me}`, put(s, i, back, less))
    if (w.at === 'chosen') fault(`the claim of ${me} is rolled back`, put(s, i, IDLE, less))
  }

  function moveRows(s: State, step: Move<State>): void {
    const owned = s.workers.reduce((mask, w) => mask | (w.mine & w.todo), 0)
    for (let r = 0; r < s.rows.length; r++) {
      const row = s.rows[r]!
      const set = (label: string, to: Partial<Row>) => step(label, { ...s, rows: change(s.rows, 1 << r, () => to) })
      if (row.st === 'hidden') set(`the sender of m${r + 1} commits`, { st: 'ready' })
      if (row.st === 'delayed') set(`m${r + 1} is due, enters the order at its end`, { st: 'ready', pos: last(s.rows) })
      if (!free(s, -1, 1 << r)) continue
      if (row.st === 'retry') set(`m${r + 1} is due again`, { st: 'ready' })
      if (row.leased && !has(owned, r))
        set(`reaper: m${r + 1} has lost its owner, becomes a suspect`, { leased: false, suspect: true })
    }
  }

  function operate(s: State, fault: Move<State>): void {
    if (s.operations === 0) return
    const operations = s.operations - 1
    for (let r = 0; r < s.rows.length; r++) {
      const row = s.rows[r]!
      if (!free(s, -1, 1 << r)) continue
      if (row.st === 'dead') {
        fault(`operator redrives m${r + 1}`, {
          ...s,
          operations,
          rows: change(s.rows, 1 << r, () => ({ st: 'ready' })),
        })
        const discarded = closed(s, -1, r, 'discarded')
        if (discarded !== null) fault(`operator discards m${r + 1}`, { ...s, operations, rows: discarded })
        const passed = closed(s, -1, r, 'passed')
        if (passed !== null) fault(`operator unblocks the key of m${r + 1}`, { ...s, operations, rows: passed })
      }
      if (row.st === 'passed')
        fault(`operator redrives m${r + 1} at the end`, {
          ...s,
          operations,
          rows: change(s.rows, 1 << r, () => ({ st: 'ready', pos: last(s.rows) })),
        })
    }
  }

  function check(s: State): string | null {
    if (s.bad !== null) return s.bad
    for (let a = 0; a < s.workers.length; a++)
      for (let b = a + 1; b < s.workers.length; b++) {
        const v = s.workers[a]!
        const w = s.workers[b]!
        for (const [one, two] of [
          [alive(s, v), alive(s, w)],
          [running(v), running(w)],
        ] as const)
          for (const x of list(one))
            for (const y of list(two))
              if (x === y || sameKey(x, y)) return `together: m${x + 1} at W${a + 1} and m${y + 1} at W${b + 1}`
      }
    return null
  }
  /** What a worker may still run: a row behind a lost one of its key is fenced with it. */
  function alive(s: State, w: Worker): number {
    const lost = list(w.todo & ~w.mine)
    const fenced = (r: number) => lost.some(q => sameKey(q, r) && s.rows[q]!.pos < s.rows[r]!.pos)
    const stopped = (r: number) => keys[r] !== -1 && has(w.stopped, keys[r]!)
    return mask(list(w.mine & w.todo).filter(r => !stopped(r) && !fenced(r)))
  }
  const running = (w: Worker) => (w.at === 'running' ? w.locks : w.at === 'settled' ? w.take : 0)

  function settled(s: State): boolean {
    if (s.workers.some(w => w.at !== 'idle')) return false
    return s.rows.every((r, i) => {
      if (r.st === 'behind' || claimable(r))
        return s.rows.some((q, j) => sameKey(i, j) && q.st === 'dead' && q.pos < r.pos)
      return finished(r) || r.st === 'dead' || r.st === 'passed'
    })
  }

  const code = (r: Row) =>
    String.fromCharCode(STATES.indexOf(r.st) * 8 + (r.leased ? 1 : 0) + (r.suspect ? 2 : 0) + (r.held ? 4 : 0), r.pos)
  function encode(w: Worker, over: number): string {
    if (w.at === 'idle') return ''
    const flags = (w.single ? 1 : 0) + (w.late ? 2 : 0)
    const { tried, locks, shares, take, mark, todo, mine, unseen, culprit, stopped } = w
    const head = String.fromCharCode(
      PHASES.indexOf(w.at),
      flags,
      tried,
      locks,
      shares,
      take,
      mark,
      todo,
      mine,
      unseen & ~over,
      culprit + 1,
      stopped,
    )
    return w.snap === null ? head : head + w.snap.map(code).join('')
  }

  return {
    initial: {
      rows: keys.map((_, i) => ({
        st: start[i] ?? 'ready',
        pos: i,
        leased: false,
        suspect: false,
        held: start[i] === 'dead' || start[i] === 'retry',
      })),
      workers: Array.from({ length: workers }, () => IDLE),
      fails,
      faults,
      operations,
      bad: null,
    },
    next,
    key: s => {
      const over = where(s.rows, finished)
      const parts = s.workers.map(w => encode(w, over)).sort()
      return `${s.rows.map(code).join('')}${s.fails}${s.faults}${s.operations}${s.bad ?? ''}|${parts.join('|')}`
    },
    check,
    settled,
    show: s => s.rows.map((r, i) => `m${i + 1} ${r.st}${r.leased ? ' (leased)' : ''}`).join(', '),
  }
}
