/** Compares what producers wrote down with what handlers did. Imports nothing from src: a fault there must not hide itself here. */
import type { Intent } from './settings.ts'

export interface Evidence {
  /** Every intent, by id, and which of them were answered. */
  readonly intents: ReadonlyMap<string, Intent>
  readonly confirmed: ReadonlySet<string>
  /** In the order in which they were written. */
  readonly effects: ReadonlyArray<{ readonly id: string; readonly key: string | null; readonly seq: number }>
  /** What is unfinished in the store. */
  readonly open: ReadonlyArray<{ readonly id: string; readonly key: string | null; readonly state: string }>
  /** Rows of the producers' own transactions. */
  readonly business: ReadonlySet<string>
}

export interface Verdict {
  readonly attempted: number
  readonly confirmed: number
  readonly done: number
  readonly dead: number
  readonly waiting: number
  readonly lost: number
  readonly ghosts: number
  readonly stranded: number
  readonly doubleEffects: number
  readonly orderViolations: number
  readonly innocentDead: number
}

const isDead = (state: string) => state === 'dead' || state === 'passed'

export function judge(evidence: Evidence): Verdict {
  const { intents, confirmed, effects, open, business } = evidence
  const done = new Set(effects.map(effect => effect.id))
  const openIds = new Set(open.map(row => row.id))
  const dead = open.filter(row => isDead(row.state))
  const waiting = open.filter(row => !isDead(row.state))
  const deadKeys = new Set(dead.map(row => row.key).filter(key => key !== null))
  return {
    attempted: intents.size,
    confirmed: confirmed.size,
    done: done.size,
    dead: dead.length,
    waiting: waiting.length,
    lost: [...confirmed].filter(id => !done.has(id) && !openIds.has(id)).length,
    // An effect that nobody intended, or a row of a transaction whose message is neither done nor open.
    ghosts:
      [...done].filter(id => !intents.has(id)).length +
      [...business].filter(id => !done.has(id) && !openIds.has(id)).length,
    stranded: waiting.filter(row => row.key === null || !deadKeys.has(row.key)).length,
    doubleEffects: effects.length - done.size + [...done].filter(id => openIds.has(id)).length,
    orderViolations: countOrderViolations(effects, dead, intents),
    innocentDead: dead.filter(row => !['dead', 'kill'].includes(intents.get(row.id)?.kind ?? '')).length,
  }
}

/** Within a key the numbers rise without a gap, and nothing passes a dead letter. */
function countOrderViolations(
  effects: Evidence['effects'],
  dead: Evidence['open'],
  intents: Evidence['intents'],
): number {
  const last = new Map<string, number>()
  let violations = 0
  for (const { key, seq } of effects) {
    if (key === null) continue
    if (seq !== (last.get(key) ?? -1) + 1) violations++
    last.set(key, seq)
  }
  const passed = dead.filter(({ id, key }) => key !== null && (last.get(key) ?? -1) > (intents.get(id)?.seq ?? 0))
  return violations + passed.length
}
