import type { Delivery } from './deliveries.ts'
import type { Payload } from './extract.ts'

export interface MirrorRow {
  readonly entity: string
  readonly title: string
  readonly state: string
  readonly updated_at: string
  readonly deleted: number
}

interface Expected {
  readonly mirror: ReadonlyMap<string, MirrorRow>
  /** Deliveries that the mirror cannot use: they have no version. */
  readonly broken: number
}

/** What the mirror must be, whatever the order and the faults: of each entity the delivery with the greatest (updated_at, id). */
export function applyDirectly(deliveries: readonly Delivery[]): Expected {
  const newest = new Map<string, { version: string; row: MirrorRow }>()
  let broken = 0
  for (const { id, body } of deliveries) {
    const payload = JSON.parse(body) as Payload
    const kind = payload.issue ? 'issue' : 'pull_request'
    const subject = payload.issue ?? payload.pull_request
    if (!subject || !payload.repository) continue
    if (!subject.updated_at) {
      broken++
      continue
    }
    const entity = `${payload.repository.full_name}/${kind}/${subject.number}`
    const version = `${subject.updated_at} ${id}`
    const known = newest.get(entity)
    if (known && known.version >= version) continue
    const deleted = payload.action === 'deleted' || payload.action === 'transferred' ? 1 : 0
    const row = {
      entity,
      title: subject.title ?? '',
      state: subject.state ?? '',
      updated_at: subject.updated_at,
      deleted,
    }
    newest.set(entity, { version, row })
  }
  return { mirror: new Map([...newest].map(([entity, { row }]) => [entity, row])), broken }
}
