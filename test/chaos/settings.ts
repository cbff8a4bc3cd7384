/** What one chaos run is made of; the orchestrator hands it to its processes as JSON. Imports nothing from src. */
export interface ChaosSettings {
  readonly store: 'sqlite' | 'postgres'
  /** The database file, or the connection string. */
  readonly place: string
  /** Journals and marks. */
  readonly folder: string
  readonly producer: number
  readonly messages: number
  readonly seed: number
}

export const leaseMs = 1_500

export type Kind = 'ok' | 'fail' | 'dead' | 'kill'

/** What a producer intends to send; written down and synced before the send. */
export interface Intent {
  readonly id: string
  readonly key: string | null
  /** Counts up within the key. */
  readonly seq: number
  readonly kind: Kind
}

/** A small generator with a seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The messages of a producer, the same in every life of it. Keys belong to one producer; the first one of producer 0 is hot. */
export function plan(producer: number, messages: number, seed: number): Intent[] {
  const random = seeded(seed * 1_000 + producer)
  const next = new Map<string, number>()
  const intents: Intent[] = []
  const add = (key: string | null, kind: Kind) => {
    const seq = key === null ? 0 : (next.get(key) ?? 0)
    if (key !== null) next.set(key, seq + 1)
    intents.push({ id: `p${producer}-${intents.length}`, key, seq, kind })
  }
  for (let n = 0; n < messages; n++) {
    const dice = random()
    const kind = dice < 0.01 ? 'fail' : 'ok'
    // What dies has a key of its own with two followers, which must wait behind it and nobody else.
    if (dice > 0.998) for (const each of ['dead', 'ok', 'ok'] as const) add(`p${producer}-dead-${n}`, each)
    else if (n === Math.floor(messages / 3))
      for (const each of ['kill', 'ok'] as const) add(`p${producer}-kill-${n}`, each)
    else if (random() < 0.3) add(null, kind)
    else add(`p${producer}-${producer === 0 && random() < 0.3 ? 'hot' : Math.floor(random() * 20)}`, kind)
  }
  return intents
}
