/**
 * A message that kills its process, among innocent neighbours.
 *
 * Processes with several slots (connections) claim batches of rows; the claim counts an attempt. When a process dies, or only its
 * beat runs out, the reaper makes suspects of what it had leased. A suspect runs alone in its process: a process that meets one at
 * the front becomes quiet, its slots finish and claim nothing, and only when all are idle is the suspect claimed, with `solo` in its
 * lease. The death of a solo lease is a death of that row, and `maxDeaths` of them make it dead. Any other death is charged to nobody,
 * and the attempts that it cost are given back.
 *
 * Faults: an external SIGKILL, or a beat that runs out while the process goes on; either may hit at any time. One that hits a solo
 * lease cannot be told from the row's own fault, so an innocent is safe only while fewer than `maxDeaths` of them hit it alone.
 */
import type { Machine, Move } from './explore.ts'

export interface Rules {
  /**
   * `process`: quiet first, then the lease. `lease`: the suspect is leased as solo and waits until its siblings are idle.
   * `transaction`: it is alone in its batch, the siblings run on.
   */
  alone: 'process' | 'lease' | 'transaction'
  /** Whose deaths count. */
  charge: 'solo' | 'all'
  /** An attempt that ended by a death is given back. */
  refund: boolean
}

export interface Setup {
  /** One letter per row: k kills its process, i is innocent. */
  rows: string
  processes?: number
  slots?: number
  batch?: number
  maxDeaths?: number
  maxAttempts?: number
  kills?: number
  beats?: number
  rules?: Partial<Rules>
}

export const CHOSEN: Rules = { alone: 'process', charge: 'solo', refund: true }

const STATES = ['ready', 'leased', 'done', 'dead'] as const
const SLOTS = ['idle', 'leased', 'runs'] as const

interface Row {
  st: (typeof STATES)[number]
  suspect: boolean
  solo: boolean
  deaths: number
  attempts: number
  /** Deaths by outside causes while it was alone: nobody could have told. */
  hits: number
}

interface Slot {
  at: (typeof SLOTS)[number]
  batch: number
  /** Rows of the batch that still carry its epoch. */
  mine: number
}

interface Process {
  quiet: boolean
  slots: readonly Slot[]
}

export interface State {
  rows: readonly Row[]
  processes: readonly Process[]
  kills: number
  beats: number
}

const IDLE: Slot = { at: 'idle', batch: 0, mine: 0 }
const has = (mask: number, i: number) => ((mask >> i) & 1) === 1

export function suspects(setup: Setup): Machine<State> {
  const { processes = 2, slots = 2, batch = 2, maxDeaths = 2, maxAttempts = 9, kills = 0, beats = 0 } = setup
  const rules: Rules = { ...CHOSEN, ...setup.rules }
  const killer = [...setup.rows].map(c => c === 'k')
  const list = (mask: number) => killer.map((_, i) => i).filter(i => has(mask, i))
  const names = (mask: number) =>
    list(mask)
      .map(i => `${killer[i] ? 'killer' : 'm'}${i + 1}`)
      .join(' ')

  const change = (rows: readonly Row[], mask: number, to: (r: Row) => Partial<Row>) =>
    rows.map((r, i) => (has(mask, i) ? { ...r, ...to(r) } : r))
  const put = (s: State, p: number, to: Partial<Process>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    processes: s.processes.map((old, i) => (i === p ? { ...old, ...to } : old)),
  })
  const setSlot = (
    s: State,
    p: number,
    k: number,
    slot: Slot,
    more: Partial<State> = {},
    quiet = s.processes[p]!.quiet,
  ) => put(s, p, { quiet, slots: s.processes[p]!.slots.map((old, i) => (i === k ? slot : old)) }, more)
  const leasedBy = (P: Process) => P.slots.reduce((mask, slot) => mask | slot.mine, 0)

  /** What the reaper makes of a row whose owner is gone. */
  const reap =
    (outside: boolean) =>
    (r: Row): Partial<Row> => {
      const counts = rules.charge === 'all' || r.solo
      const deaths = r.deaths + (counts ? 1 : 0)
      return {
        st: deaths < maxDeaths ? 'ready' : 'dead',
        suspect: true,
        solo: false,
        deaths,
        attempts: rules.refund ? r.attempts - 1 : r.attempts,
        hits: r.hits + (outside && r.solo ? 1 : 0),
      }
    }

  function next(s: State, step: Move<State>, fault: Move<State>): void {
    for (let p = 0; p < processes; p++) {
      const P = s.processes[p]!
      const same = (q: Process) => !q.quiet && q.slots.every(slot => slot.at === 'idle')
      // Two processes that do nothing are the same process.
      if (same(P) && s.processes.slice(0, p).some(same)) continue
      for (let k = 0; k < slots; k++) moveSlot(s, p, k, step)
      const owned = leasedBy(P)
      if (owned === 0) continue
      if (s.kills > 0) fault(`P${p + 1} is killed from outside`, { ...die(s, p, true), kills: s.kills - 1 })
      if (s.beats === 0) continue
      const rows = change(s.rows, owned, reap(true))
      const zombies = P.slots.map(slot => ({ ...slot, mine: 0 }))
      fault(
        `the beat of P${p + 1} runs out, ${names(owned)} become suspects`,
        put(s, p, { slots: zombies }, { rows, beats: s.beats - 1 }),
      )
    }
  }

  function die(s: State, p: number, outside: boolean): State {
    const rows = change(s.rows, leasedBy(s.processes[p]!), reap(outside))
    return put(s, p, { quiet: false, slots: Array.from({ length: slots }, () => IDLE) }, { rows })
  }

  function moveSlot(s: State, p: number, k: number, step: Move<State>): void {
    const P = s.processes[p]!
    const slot = P.slots[k]!
    const me = `P${p + 1}${'ab'[k]}`
    const siblings = P.slots.some((o, i) => i !== k && o.at !== 'idle')
    if (slot.at === 'idle') {
      if (P.slots.slice(0, k).some(o => o.at === 'idle')) return
      claim(s, p, k, me, siblings, step)
    } else if (slot.at === 'leased') {
      const waits = rules.alone === 'lease' && siblings && list(slot.batch).some(r => s.rows[r]!.suspect)
      if (!waits) step(`${me} runs ${names(slot.batch)}`, setSlot(s, p, k, { ...slot, at: 'runs' }))
    } else if (list(slot.batch).some(r => killer[r])) {
      step(`${me}: ${names(slot.batch)} kills P${p + 1}`, die(s, p, false))
    } else if (slot.mine !== slot.batch) {
      step(
        `${me} is fenced`,
        setSlot(s, p, k, IDLE, { rows: change(s.rows, slot.mine, () => ({ st: 'ready', solo: false })) }, false),
      )
    } else {
      const done = { st: 'done', suspect: false, solo: false } as const
      step(
        `${me} COMMIT ${names(slot.batch)}`,
        setSlot(s, p, k, IDLE, { rows: change(s.rows, slot.batch, () => done) }, false),
      )
    }
  }

  function claim(s: State, p: number, k: number, me: string, siblings: boolean, step: Move<State>): void {
    const P = s.processes[p]!
    const ready = s.rows.map((_, i) => i).filter(i => s.rows[i]!.st === 'ready')
    const first = ready[0]
    if (first === undefined) {
      if (P.quiet) step(`${me} finds no suspect, P${p + 1} goes on`, put(s, p, { quiet: false }))
      return
    }
    const solo = s.rows[first]!.suspect
    if (solo && rules.alone === 'process' && siblings) {
      if (!P.quiet)
        step(`${me} meets suspect ${names(1 << first)}, P${p + 1} becomes quiet`, put(s, p, { quiet: true }))
      return
    }
    // Its siblings claim nothing while a suspect waits to be alone, or is.
    if (P.slots.some(o => list(o.mine).some(r => s.rows[r]!.solo)) && rules.alone !== 'transaction') return
    if (!solo && P.quiet && siblings) return
    const cut = ready.findIndex(i => s.rows[i]!.suspect)
    const taken = solo ? [first] : ready.slice(0, cut < 0 ? batch : Math.min(cut, batch))
    const mask = taken.reduce((all, r) => all | (1 << r), 0)
    const spent = taken.find(r => s.rows[r]!.attempts >= maxAttempts)
    if (spent !== undefined) {
      step(`${me}: attempts of ${names(1 << spent)} are used up`, {
        ...s,
        rows: change(s.rows, 1 << spent, () => ({ st: 'dead' })),
      })
      return
    }
    const rows = change(s.rows, mask, r => ({ st: 'leased', solo, attempts: r.attempts + 1 }))
    const label = `${me} leases ${names(mask)}${solo ? ' alone' : ''}`
    step(label, setSlot(s, p, k, { at: 'leased', batch: mask, mine: mask }, { rows }, solo))
  }

  function check(s: State): string | null {
    for (let i = 0; i < s.rows.length; i++) {
      const r = s.rows[i]!
      if (!killer[i] && r.deaths > r.hits)
        return `charged: the innocent m${i + 1} pays for a death that was not its own`
      if (!killer[i] && r.st === 'dead') return `innocent: m${i + 1} is dead`
      if (killer[i] && r.st === 'dead' && r.deaths !== maxDeaths)
        return `killer: ${i + 1} is dead after ${r.deaths} deaths alone`
    }
    return null
  }

  return {
    initial: {
      rows: killer.map(() => ({ st: 'ready', suspect: false, solo: false, deaths: 0, attempts: 0, hits: 0 })),
      processes: Array.from({ length: processes }, () => ({
        quiet: false,
        slots: Array.from({ length: slots }, () => IDLE),
      })),
      kills,
      beats,
    },
    next,
    key: s => {
      const rows = s.rows
        .map(r =>
          String.fromCharCode(
            STATES.indexOf(r.st) * 4 + (r.suspect ? 1 : 0) + (r.solo ? 2 : 0),
            r.deaths,
            r.attempts,
            r.hits,
          ),
        )
        .join('')
      const slot = (k: Slot) => String.fromCharCode(SLOTS.indexOf(k.at), k.batch, k.mine)
      const all = s.processes.map(p => (p.quiet ? 'q' : 'n') + p.slots.map(slot).sort().join('')).sort()
      return `${rows}${s.kills}${s.beats}${all.join('')}`
    },
    check,
    settled: s =>
      s.rows.every((r, i) => r.st === (killer[i] ? 'dead' : 'done')) &&
      s.processes.every(p => p.slots.every(slot => slot.at === 'idle')),
    show: s => s.rows.map((r, i) => `${names(1 << i)} ${r.st}`).join(', '),
  }
}
