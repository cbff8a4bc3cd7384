import { createHash, createHmac } from 'node:crypto'
import { createRequire } from 'node:module'
import type { Payload } from './extract.ts'

/** One HTTP request that GitHub would make. */
export interface Delivery {
  readonly id: string
  readonly event: string
  readonly body: string
  readonly signature: string
  /** What the endpoint must answer. */
  readonly kind: 'good' | 'unsigned' | 'corrupt'
}

interface Example {
  readonly name: string
  readonly examples: readonly Payload[]
}

const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as readonly Example[] & {
  readonly default?: readonly Example[]
}

/** A small generator with a seed (mulberry32), so that a run can be made again. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function shuffle<T>(items: T[], random: () => number): T[] {
  for (let at = items.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1))
    const held = items[at] as T
    items[at] = items[other] as T
    items[other] = held
  }
  return items
}

/** The payload as this repository would send it at this step. Two steps share a second: `updated_at` alone does not order them. */
function rewrite(payload: Payload, repository: number, step: number, isBroken: boolean): Payload {
  const copy = { ...payload }
  if (payload.repository) {
    const name = `repository-${repository}`
    Object.assign(copy, {
      repository: { ...payload.repository, id: 1_000 + repository, name, full_name: `example/${name}` },
    })
  }
  const at = new Date(Date.UTC(2026, 0, 1) + Math.floor(step / 2) * 1_000).toISOString().replace('.000Z', 'Z')
  for (const kind of ['issue', 'pull_request'] as const) {
    const subject = payload[kind]
    if (!subject) continue
    const { updated_at: _, ...rest } = subject
    Object.assign(copy, { [kind]: isBroken ? rest : { ...rest, updated_at: at } })
  }
  return copy
}

/** Every example for every repository. One pull request of each tenth repository comes without its version. */
export function createDeliveries(repositories: number, secret: string): Delivery[] {
  const list = (examples.default ?? examples).flatMap(({ name, examples: payloads }) =>
    payloads.map(payload => ({ name, payload })),
  )
  const firstPullRequest = list.findIndex(({ payload }) => payload.pull_request)
  const deliveries: Delivery[] = []
  for (let repository = 0; repository < repositories; repository++) {
    for (const [step, { name, payload }] of list.entries()) {
      const isBroken = step === firstPullRequest && repository % 10 === 0
      const body = JSON.stringify(rewrite(payload, repository, step, isBroken))
      const hash = createHash('sha256').update(`${repository}/${step}`).digest('hex')
      const id = `${hash.slice(0, 8)}-${hash.slice(8, 12)}-4${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`
      deliveries.push({ id, event: name, body, signature: sign(body, secret), kind: 'good' })
    }
  }
  return deliveries
}

export function sign(body: string, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
}
