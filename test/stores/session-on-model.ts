import { expect } from 'vitest'
import type { Claim, Delivery } from '../../src/contracts/deliveries.ts'
import { idsOf, message, type Scene } from '../../src/testing/store-suite/scene.ts'
import { codeOf } from '../../src/testing/test-framework.ts'
import { Model } from './model.ts'

export type Fate = 'done' | 'retry' | 'dead' | 'passed' | 'released'

export type Operation =
  | { readonly do: 'send'; readonly key: string | null; readonly delayMs: number; readonly count: number }
  | { readonly do: 'resend' | 'redrive' | 'discard' | 'edit' | 'unblock' | 'late'; readonly pick: number }
  | { readonly do: 'claim'; readonly owner: 0 | 1; readonly max: number }
  | { readonly do: 'suspect'; readonly owner: 0 | 1 }
  | { readonly do: 'settle'; readonly pick: number; readonly fates: readonly Fate[] }
  | { readonly do: 'giveBack'; readonly owner: 0 | 1 }
  | { readonly do: 'lose' }
  | { readonly do: 'wait'; readonly ms: number }

interface Held {
  readonly claim: Claim
  readonly owner: string
}

const CONSUMER = 'billing'

/** Does the same to a store and to the model, and compares what came of it after each operation. */
export class SessionOnModel {
  readonly #scene: Scene
  readonly #model = new Model()
  #owners: [string, string] = ['p1', 'p2']
  #claims: Held[] = []
  #lost: Claim[] = []
  #sent = 0
  readonly #finished: string[] = []

  constructor(scene: Scene) {
    this.#scene = scene
  }

  async perform(operation: Operation): Promise<void> {
    await this.#perform(operation)
    const status = (await this.#scene.store.reads.status()).consumers.find(entry => entry.consumer === CONSUMER)
    const counted = Object.values(status?.states ?? {}).reduce((sum, count) => sum + count, status?.inProgress ?? 0)
    expect(counted, 'unfinished deliveries').toBe(this.#model.unfinished)
    expect(status?.states.dead, 'dead letters').toBe(this.#model.in('dead').length)
    await this.#scene.balanced()
  }

  /** Everybody dies, time passes, all that can run runs; then the cases are closed and the rest runs. */
  async end(): Promise<void> {
    await this.#lose()
    await this.#scene.clock.advance(1e6)
    await this.#drain()
    expect(this.#open(), 'what is left, while cases are open').toEqual(
      [...this.#model.in('dead', 'passed'), ...this.#model.held].map(({ id }) => id).sort(),
    )
    for (const { id } of this.#model.in('dead', 'passed')) {
      await this.#scene.discard(id)
      this.#model.settle(id, 'ended')
    }
    await this.#drain()
    expect(this.#open(), 'what is left at the end').toEqual([])
    expect(new Set(this.#finished).size, 'finished once each').toBe(this.#finished.length)
    await this.#scene.balanced()
  }

  async #perform(operation: Operation): Promise<unknown> {
    switch (operation.do) {
      case 'send':
        return this.#send(operation.key, operation.delayMs, operation.count)
      case 'claim':
        return this.#claim(this.#owners[operation.owner], operation.max)
      case 'suspect':
        return this.#suspect(this.#owners[operation.owner])
      case 'settle':
        return this.#settle(operation.pick, operation.fates)
      case 'giveBack':
        return this.#giveBack(this.#owners[operation.owner])
      case 'lose':
        return this.#lose()
      case 'wait':
        return this.#scene.clock.advance(operation.ms)
      default:
        return this.#byHand(operation.do, operation.pick)
    }
  }

  async #send(key: string | null, delayMs: number, count: number): Promise<void> {
    const ids = Array.from({ length: count }, () => `m${++this.#sent}`)
    const dueAt = delayMs === 0 ? null : this.#scene.clock.now() + delayMs
    const accepted = await this.#scene.send(
      ...ids.map(id => message(id, { key, delayMs: delayMs === 0 ? null : delayMs })),
    )
    expect(accepted.map(acceptance => acceptance.fanOut)).toEqual(ids.map(() => 1))
    for (const id of ids) this.#model.send(id, key, dueAt)
  }

  async #claim(owner: string, max: number): Promise<string[]> {
    const claim = await this.#scene.claim(CONSUMER, owner, max)
    this.#model.promote(this.#scene.clock.now())
    return this.#take(claim, owner, 'ready')
  }

  /** Suspects run alone: a process that holds something takes none. */
  async #suspect(owner: string): Promise<string[]> {
    if (this.#claims.some(held => held.owner === owner)) return []
    return this.#take(await this.#scene.claimSuspect(CONSUMER, owner), owner, 'suspect')
  }

  #take(claim: Claim, owner: string, from: 'ready' | 'suspect'): string[] {
    const ids = idsOf(claim)
    expect(this.#model.faultsOfClaim(ids, from)).toEqual([])
    this.#model.lease(ids, claim.epoch, from === 'suspect')
    if (ids.length > 0) this.#claims.push({ claim, owner })
    return ids
  }

  async #settle(pick: number, fates: readonly Fate[]): Promise<void> {
    const [held] = this.#claims.splice(pick % Math.max(1, this.#claims.length), 1)
    if (!held) return
    const { claim } = held
    const blocked = new Set<string | null>()
    const byFate: Record<Fate, Delivery[]> = { done: [], retry: [], dead: [], passed: [], released: [] }
    for (const [index, delivery] of claim.deliveries.entries()) {
      const asked = fates[index % fates.length] ?? 'done'
      const fate = delivery.key !== null && blocked.has(delivery.key) ? 'released' : asked
      if (fate === 'retry' || fate === 'dead' || fate === 'released') blocked.add(delivery.key)
      byFate[fate].push(delivery)
    }
    await this.#scene.finish(claim, 'done', byFate.done)
    await this.#scene.defer(claim, { to: 'retry', delayMs: 2_000 }, byFate.retry)
    await this.#scene.defer(claim, { to: 'dead' }, byFate.dead)
    await this.#scene.defer(claim, { to: 'dead', onDead: 'pass' }, byFate.passed)
    await this.#scene.defer(claim, { to: 'released' }, byFate.released)
    this.#finished.push(...byFate.done.map(({ id }) => id))
    for (const { id } of byFate.done) this.#model.settle(id, 'ended')
    for (const { id } of byFate.retry) this.#model.settle(id, 'retry', this.#scene.clock.now() + 2_000)
    for (const { id } of byFate.dead) this.#model.settle(id, 'dead')
    for (const { id } of byFate.passed) this.#model.settle(id, 'passed')
    for (const { id } of byFate.released) this.#model.release(id)
  }

  async #giveBack(owner: string): Promise<void> {
    const held = this.#claims.filter(entry => entry.owner === owner)
    const ids = held.flatMap(({ claim }) => idsOf(claim))
    expect(await this.#scene.store.releaseAll(owner)).toBe(ids.length)
    for (const id of ids) this.#model.release(id)
    this.#claims = this.#claims.filter(entry => entry.owner !== owner)
    this.#lost.push(...held.map(({ claim }) => claim))
  }

  async #lose(): Promise<void> {
    await this.#scene.lose(this.#owners[0], `${this.#owners[0]}+`)
    await this.#scene.process(`${this.#owners[1]}+`)
    this.#owners = [`${this.#owners[0]}+`, `${this.#owners[1]}+`]
    this.#model.lose()
    this.#lost.push(...this.#claims.map(({ claim }) => claim))
    this.#claims = []
  }

  async #byHand(what: 'resend' | 'redrive' | 'discard' | 'edit' | 'unblock' | 'late', pick: number): Promise<void> {
    if (what === 'late') return this.#settleLate(pick)
    if (what === 'resend') return this.#resend(pick)
    const letters = this.#model.in(
      ...(what === 'redrive' || what === 'discard' ? (['dead', 'passed'] as const) : (['dead'] as const)),
    )
    const id = letters[pick % Math.max(1, letters.length)]?.id
    if (id === undefined) return
    if (what === 'redrive') {
      await this.#scene.redrive(id)
      this.#model.redrive(id)
    } else if (what === 'discard') {
      await this.#scene.discard(id)
      this.#model.settle(id, 'ended')
    } else if (what === 'unblock') {
      await this.#scene.unblock(id)
      this.#model.settle(id, 'passed')
    } else {
      const heir = `m${++this.#sent}`
      await this.#scene.edit(id, heir)
      this.#model.edit(id, heir)
    }
  }

  /** A zombie wakes up: what it held is not its own any more. */
  async #settleLate(pick: number): Promise<void> {
    const claim = this.#lost[pick % Math.max(1, this.#lost.length)]
    if (!claim) return
    expect(await codeOf(() => this.#scene.finish(claim))).toBe('FENCED')
    expect((await this.#scene.defer(claim, { to: 'dead' })).size).toBe(0)
  }

  async #resend(pick: number): Promise<void> {
    const known = [...this.#model.deliveries.values()]
    const delivery = known[pick % Math.max(1, known.length)]
    if (!delivery) return
    const { id, key } = delivery
    const code = await codeOf(async () => {
      expect(await this.#scene.send(message(id, { key }))).toMatchObject([{ duplicate: true }])
    })
    // Edited contents differ from what a sender would make of the id.
    expect(['nothing', 'ID_REUSED']).toContain(code)
  }

  async #drain(): Promise<void> {
    for (const owner of this.#owners) {
      for (;;) {
        await this.#suspect(owner)
        await this.#settle(0, ['done'])
        const ids = await this.#claim(owner, 100)
        await this.#settle(0, ['done'])
        const next = await this.#suspect(owner)
        await this.#settle(0, ['done'])
        if (ids.length + next.length === 0) break
      }
    }
  }

  #open(): string[] {
    return [...this.#model.deliveries.values()]
      .filter(({ state }) => state !== 'ended')
      .map(({ id }) => id)
      .sort()
  }
}
