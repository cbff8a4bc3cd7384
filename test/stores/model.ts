/** What a store must do, in the fewest words: one consumer, its deliveries in a list, no locks and no time but `now`. */

export type ModelState = 'ready' | 'delayed' | 'retry' | 'suspect' | 'dead' | 'passed' | 'ended'

export interface ModelDelivery {
  readonly id: string
  readonly key: string | null
  /** Its place in the order; not known while it is delayed. */
  place: number
  state: ModelState
  dueAt: number
  /** The claim that holds it. */
  lease: number | null
  solo: boolean
  deaths: number
}

export class Model {
  readonly deliveries = new Map<string, ModelDelivery>()
  #places = 0

  send(id: string, key: string | null, dueAt: number | null): void {
    const state = dueAt === null ? 'ready' : 'delayed'
    const place = ++this.#places
    this.deliveries.set(id, { id, key, place, state, dueAt: dueAt ?? 0, lease: null, solo: false, deaths: 0 })
  }

  get(id: string): ModelDelivery {
    const delivery = this.deliveries.get(id)
    if (!delivery) throw new Error(`the store knows ${id}, and nobody sent it`)
    return delivery
  }

  /** What a claim does first: a retry keeps its place, a delayed one enters the order at its end. */
  promote(now: number): void {
    const due = [...this.deliveries.values()].filter(
      delivery => (delivery.state === 'delayed' || delivery.state === 'retry') && delivery.dueAt <= now,
    )
    due.sort((a, b) => a.dueAt - b.dueAt)
    for (const delivery of due) {
      if (delivery.state === 'delayed') delivery.place = ++this.#places
      delivery.state = 'ready'
    }
  }

  /** Every rule that a claim of `ids` breaks. */
  faultsOfClaim(ids: readonly string[], from: 'ready' | 'suspect'): string[] {
    const claimed = ids.map(id => this.get(id))
    const faults: string[] = []
    for (const [index, delivery] of claimed.entries()) {
      const { id, state, lease, place } = delivery
      if (state !== from || lease !== null) faults.push(`${id} was claimed while ${lease === null ? state : 'leased'}`)
      const previous = claimed[index - 1]
      if (previous && previous.place >= place) faults.push(`${id} was claimed after ${previous.id}`)
      const hole = this.holesOf(delivery).find(other => !ids.includes(other.id))
      if (hole) faults.push(`${id} passed ${hole.id}, which is ${hole.lease === null ? hole.state : 'leased'}`)
    }
    return faults
  }

  /** Unfinished deliveries of its key that it may not pass: those before it, and any that runs. */
  holesOf({ id, key, place }: ModelDelivery): ModelDelivery[] {
    if (key === null) return []
    return [...this.deliveries.values()].filter(other => {
      const isUnfinished = !['ended', 'passed', 'delayed'].includes(other.state)
      return other.key === key && other.id !== id && isUnfinished && (other.place < place || other.lease !== null)
    })
  }

  lease(ids: readonly string[], lease: number, solo: boolean): void {
    for (const id of ids) Object.assign(this.get(id), { lease, solo, state: 'ready' })
  }

  settle(id: string, state: ModelState, dueAt = 0): void {
    Object.assign(this.get(id), { state, dueAt, lease: null, solo: false })
  }

  release(id: string): void {
    const { solo } = this.get(id)
    this.settle(id, solo ? 'suspect' : 'ready')
  }

  /** Every process is gone: what it held becomes a suspect, or a dead letter when it killed alone for the third time. */
  lose(): void {
    for (const delivery of this.deliveries.values()) {
      if (delivery.lease === null) continue
      if (delivery.solo) delivery.deaths++
      this.settle(delivery.id, delivery.deaths >= 3 ? 'dead' : 'suspect')
    }
  }

  redrive(id: string): void {
    const delivery = this.get(id)
    if (delivery.state === 'passed') delivery.place = ++this.#places
    delivery.deaths = 0
    this.settle(id, 'ready')
  }

  /** The heir takes the place; for what was passed there is none to take. */
  edit(id: string, heir: string): void {
    const { key, place } = this.get(id)
    this.send(heir, key, null)
    this.get(heir).place = place
    this.settle(id, 'ended')
  }

  in(...states: readonly ModelState[]): ModelDelivery[] {
    return [...this.deliveries.values()].filter(({ state, lease }) => states.includes(state) && lease === null)
  }

  get unfinished(): number {
    return [...this.deliveries.values()].filter(({ state }) => state !== 'ended').length
  }

  /** What nobody can run until a case is closed. */
  get held(): ModelDelivery[] {
    return this.in('ready', 'suspect').filter(delivery => this.holesOf(delivery).some(hole => hole.state === 'dead'))
  }
}
