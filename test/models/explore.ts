/**
 * A breadth-first explorer for small state machines.
 *
 * A machine yields its moves from a state. `step` is a move that the system makes by itself; `fault` is one that happens
 * to it (a kill, an operator). Both are explored; only steps count as progress. Exploration ends at the first state whose
 * `check` complains, so the trace is a shortest one. When every state was seen and none complained, `settled` is judged: from
 * each state steps alone must be able to lead to a settled one, otherwise that state is `stranded` (this finds dead ends as well
 * as circles that never end). Traces are found again from the keys, so that no label is stored per state.
 */
export type Move<S> = (label: string, to: S) => void

export interface Machine<S> {
  initial: S
  /** Reports each move from `state`. The states that it reports are new ones; `state` is left as it is. */
  next: (state: S, step: Move<S>, fault: Move<S>) => void
  /** Two states with the same key are the same state. */
  key: (state: S) => string
  /** `kind: what happened`, or null. */
  check: (state: S) => string | null
  settled?: (state: S) => boolean
  /** One line about a state, for the end of a stranded trace. */
  show?: (state: S) => string
  maxStates?: number
}

export interface Violation {
  kind: string
  text: string
  trace: string[]
}

export interface Report {
  states: number
  moves: number
  /** False when the search ended at `maxStates`: its silence proves nothing. */
  exhausted: boolean
  violation: Violation | null
}

export function explore<S>(machine: Machine<S>): Report {
  const { next, key, check, settled, maxStates = 5_000_000 } = machine
  const ids = new Map<string, number>()
  const keys: string[] = []
  const parents: number[] = []
  const from: number[] = []
  const to: number[] = []
  const good: number[] = []
  let level: S[] = []
  let moves = 0
  let exhausted = true
  let broken: { id: number; text: string } | null = null

  const reach = (state: S, parent: number, queue: S[]): number => {
    const k = key(state)
    const known = ids.get(k)
    if (known !== undefined) return known
    const id = keys.length
    ids.set(k, id)
    keys.push(k)
    parents.push(parent)
    const text = check(state)
    if (text !== null && broken === null) broken = { id, text }
    if (settled?.(state)) good.push(id)
    queue.push(state)
    return id
  }

  reach(machine.initial, -1, level)
  let id = 0
  while (level.length > 0 && broken === null && exhausted) {
    const queue: S[] = []
    for (const state of level) {
      const at = id++
      const fault: Move<S> = (_label, target) => {
        moves++
        reach(target, at, queue)
      }
      const step: Move<S> = (_label, target) => {
        moves++
        const reached = reach(target, at, queue)
        if (settled && reached !== at) {
          from.push(at)
          to.push(reached)
        }
      }
      next(state, step, fault)
      if (broken !== null) break
      if (keys.length > maxStates) {
        exhausted = false
        break
      }
    }
    level = queue
  }

  const found = broken as { id: number; text: string } | null
  let violation: Violation | null = null
  if (found !== null) {
    const { trace } = retrace(machine, keys, parents, found.id)
    violation = { kind: found.text.split(':')[0]!, text: found.text, trace }
  } else if (settled && exhausted) {
    const lost = firstStranded(keys.length, from, to, good)
    if (lost >= 0) {
      const { trace, state } = retrace(machine, keys, parents, lost)
      violation = { kind: 'stranded', text: `stranded: nothing ends ${machine.show?.(state) ?? 'this'}`, trace }
    }
  }
  return { states: keys.length, moves, exhausted, violation }
}

/** The first state from which no settled one can be reached by steps, or -1: a search backwards from the settled ones. */
function firstStranded(count: number, from: number[], to: number[], good: number[]): number {
  const start = new Int32Array(count + 1)
  for (const t of to) start[t + 1]!++
  for (let i = 0; i < count; i++) start[i + 1]! += start[i]!
  const fill = start.slice()
  const before = new Int32Array(to.length)
  for (let e = 0; e < to.length; e++) before[fill[to[e]!]!++] = from[e]!
  const safe = new Uint8Array(count)
  const stack = [...good]
  for (const id of good) safe[id] = 1
  while (stack.length > 0) {
    const id = stack.pop()!
    for (let e = start[id]!; e < start[id + 1]!; e++) {
      const prior = before[e]!
      if (safe[prior] === 1) continue
      safe[prior] = 1
      stack.push(prior)
    }
  }
  // The first dead end says most; without one, the first state that only runs in circles.
  const moves = new Uint8Array(count)
  for (const f of from) moves[f] = 1
  const end = safe.findIndex((s, id) => s === 0 && moves[id] === 0)
  return end >= 0 ? end : safe.indexOf(0)
}

function retrace<S>(machine: Machine<S>, keys: string[], parents: number[], id: number): { trace: string[]; state: S } {
  const path: number[] = []
  for (let at = id; at > 0; at = parents[at]!) path.unshift(at)
  const trace: string[] = []
  let state = machine.initial
  for (const step of path) {
    let taken: { label: string; to: S } | null = null
    const look = (prefix: string) => (label: string, target: S) => {
      if (taken === null && machine.key(target) === keys[step]) taken = { label: prefix + label, to: target }
    }
    machine.next(state, look(''), look('-- '))
    const found = taken as { label: string; to: S } | null
    if (found === null)
      throw new Error('a state could not be reached again: next() or key() is not a function of the state')
    trace.push(found.label)
    state = found.to
  }
  return { trace, state }
}

/** A violation as text, one numbered line per move: what a failing test prints. */
export function tell(report: Report): string {
  const size = `${report.states} states, ${report.moves} moves${report.exhausted ? '' : ', NOT exhausted'}`
  if (report.violation === null) return `no violation (${size})`
  const lines = report.violation.trace.map((label, i) => `${String(i + 1).padStart(3)}. ${label}`)
  return [`${report.violation.text} (${size})`, ...lines].join('\n')
}
