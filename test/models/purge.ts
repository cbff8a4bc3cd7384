/**
 * Retention: the memory of a done message is purged while copies of it may still arrive.
 *
 * One message, already done and old enough to be purged; some copies of it are still on their way. A process receives a copy and inserts the
 * identity, in a transaction that begins (its statements may see what was committed then), inserts (a conflict → ack) and commits. The
 * inserting statement is the gate: a message not later than the watermark W is inserted as a dead letter `unprovable`. If the
 * handler fails, the attempt is rolled back and custody inserts in a transaction of its own, with the gate again; the store then runs
 * what custody made runnable.
 *
 * The purge raises W and commits; waits until every transaction that began before has ended; deletes. A statement that began
 * before the raise sees the old W, and may insert long after: it is the wait that such a writer is waited for. Copies are either the
 * message that was done (older than W) or a later one, which the purge must not touch: `fresh`.
 */
import type { Machine, Move } from './explore.ts'

export interface Rules {
  order: 'raise, wait, delete' | 'raise, delete' | 'delete, raise' | 'one transaction'
  /** Where W is asked. */
  gate: 'everywhere' | 'attempt' | 'never'
  /** When the gate reads W: in the inserting statement, when its transaction begins, or once when the process starts. */
  reads: 'insert' | 'begin' | 'start'
}

export interface Setup {
  processes?: number
  /** How often each process receives the copy. */
  copies?: number
  fails?: number
  /** Purges, each raising W over what is done by then. */
  purges?: number
  /** The message has not been done yet; it is done by the first copy, and can only be purged afterwards. */
  fresh?: boolean
  rules?: Partial<Rules>
}

export const CHOSEN: Rules = { order: 'raise, wait, delete', gate: 'everywhere', reads: 'insert' }

const ROWS = ['none', 'done', 'open', 'unprovable'] as const
const PHASES = ['idle', 'begun', 'gated', 'inserted', 'failed', 'over'] as const
const PURGE = ['idle', 'raised', 'deleted'] as const

interface Process {
  at: (typeof PHASES)[number]
  custody: boolean
  /** What the gate of its statement sees. */
  watermark: boolean
  /** It began before the purge that is under way raised W. */
  early: boolean
  as: 'done' | 'open' | 'unprovable'
  copies: number
}

export interface State {
  row: (typeof ROWS)[number]
  /** The message's completion is covered by W. */
  watermark: boolean
  purge: (typeof PURGE)[number]
  purges: number
  processes: readonly Process[]
  effects: number
  fails: number
}

export function purge(setup: Setup): Machine<State> {
  const { processes = 2, copies = 1, fails = 1, purges = 1, fresh = false } = setup
  const rules: Rules = { ...CHOSEN, ...setup.rules }

  const set = (s: State, p: number, to: Partial<Process>, more: Partial<State> = {}): State => ({
    ...s,
    ...more,
    processes: s.processes.map((old, i) => (i === p ? { ...old, ...to } : old)),
  })
  const open = (p: Process) => p.at === 'begun' || p.at === 'gated' || p.at === 'inserted'
  /** The identity's unique index: a second insert waits until the first transaction ends. */
  const free = (s: State, self: number) => !s.processes.some((p, i) => i !== self && p.at === 'inserted')

  function next(s: State, step: Move<State>, fault: Move<State>): void {
    for (let p = 0; p < processes; p++) moveProcess(s, p, step, fault)
    if (s.row === 'open') step('the store runs it', { ...s, row: 'done', effects: s.effects + 1 })
    movePurge(s, step)
  }

  function moveProcess(s: State, p: number, step: Move<State>, fault: Move<State>): void {
    const P = s.processes[p]!
    const me = `P${p + 1}${P.custody ? ' custody' : ''}`
    const end: Partial<Process> = {
      at: P.copies > 0 ? 'idle' : 'over',
      custody: false,
      watermark: false,
      early: false,
      as: 'done',
    }
    const begun: Partial<Process> = { at: 'begun', watermark: s.watermark, early: s.purge !== 'raised' }
    if (P.at === 'idle') {
      step(`${me}: a copy arrives, BEGIN`, set(s, p, { ...begun, copies: P.copies - 1 }))
    } else if (P.at === 'failed') {
      step(`P${p + 1}: BEGIN custody`, set(s, p, { ...begun, custody: true }))
    } else if (P.at === 'begun') {
      // The statement takes its snapshot; its insert comes later.
      const watermark = rules.reads === 'insert' ? s.watermark : rules.reads === 'begin' && P.watermark
      step(`${me}: the insert begins, W is ${watermark ? 'raised' : 'old'}`, set(s, p, { at: 'gated', watermark }))
    } else if (P.at === 'gated') {
      if (!free(s, p)) return
      if (s.row !== 'none') step(`${me}: conflict, ack`, set(s, p, end))
      else {
        const asked = rules.gate === 'everywhere' || (rules.gate === 'attempt' && !P.custody)
        const as = asked && P.watermark ? 'unprovable' : P.custody ? 'open' : 'done'
        step(`${me}: inserts as ${as}`, set(s, p, { at: 'inserted', as }))
      }
    } else if (P.at === 'inserted') {
      const effects = s.effects + (P.as === 'done' ? 1 : 0)
      step(`${me}: COMMIT ${P.as}`, set(s, p, end, { row: P.as, effects }))
      if (P.as === 'done' && s.fails > 0)
        fault(
          `${me}: handler fails, rollback`,
          set(s, p, { at: 'failed', watermark: false, early: false, as: 'done' }, { fails: s.fails - 1 }),
        )
    }
  }

  function movePurge(s: State, step: Move<State>): void {
    const forget = (row: State['row']) => (row === 'done' ? 'none' : row)
    const waits = rules.order === 'raise, wait, delete' && s.processes.some(p => open(p) && p.early)
    const more = { purges: s.purges - 1 }
    if (s.purge === 'idle' && s.purges > 0 && s.row === 'done') {
      if (rules.order === 'one transaction')
        step('purge raises W and deletes at once', { ...s, ...more, row: forget(s.row), watermark: true })
      else if (rules.order === 'delete, raise')
        step('purge deletes', { ...s, ...more, row: forget(s.row), purge: 'deleted' })
      else step('purge raises W', { ...s, ...more, watermark: true, purge: 'raised' })
    }
    if (s.purge === 'deleted') step('purge raises W', { ...s, watermark: true, purge: 'idle' })
    if (s.purge === 'raised' && !waits) step('purge deletes', { ...s, row: forget(s.row), purge: 'idle' })
  }

  return {
    initial: {
      row: fresh ? 'none' : 'done',
      watermark: false,
      purge: 'idle',
      purges,
      processes: Array.from({ length: processes }, () => ({
        at: 'idle',
        custody: false,
        watermark: false,
        early: false,
        as: 'done',
        copies,
      })),
      effects: fresh ? 0 : 1,
      fails,
    },
    next,
    key: s =>
      JSON.stringify([
        s.row,
        s.watermark,
        s.purge,
        s.purges,
        s.effects,
        s.fails,
        s.processes.map(p => `${p.at}${p.custody}${p.watermark}${p.early}${p.as}${p.copies}`).sort(),
      ]),
    check: s => (s.effects > 1 ? 'twice: the message takes effect a second time' : null),
    settled: s => s.purge === 'idle' && s.row !== 'open' && s.processes.every(p => p.at === 'over') && s.effects === 1,
    show: s => `row ${s.row}, ${s.effects} effects`,
  }
}
