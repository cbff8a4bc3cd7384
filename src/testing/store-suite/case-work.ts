import { codeOf, type Tests } from '../test-framework.ts'
import { BROKEN, bytes, idsOf, keyed, message, numbered, ORDERS, type Scene } from './scene.ts'

export const deadLetters: Tests<Scene> = {
  async 'tell everything about a failure'(scene) {
    await scene.subscribe('billing')
    await scene.send(
      message('m1', { key: 'k', version: 4, body: bytes('seven b'), sentAt: 99 }),
      ...keyed('k', 'm2', 'm3'),
    )
    await scene.defer(await scene.claim('billing', 'p1', 1), { to: 'dead', label: 'rolled back' })
    const [letter, ...others] = await scene.letters()
    scene.expect(others).toEqual([])
    scene.expect(letter).toMatchObject({ ...scene.name('m1'), ...BROKEN, type: 'order.placed', version: 4, key: 'k' })
    const facts = { state: 'dead', label: 'rolled back', build: 'v1', attempts: 1, deaths: 0, repeats: 0, sentAt: 99 }
    scene.expect(letter).toMatchObject({ ...facts, openedAt: scene.clock.now(), followers: 2, bodyBytes: 7 })
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 3, dead: 1 })
  },
  async 'of a passed head have no followers'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.kill(['k1'], 'pass')
    scene.expect(await scene.letters()).toMatchObject([{ id: 'k1', state: 'passed' }])
    scene.expect(await scene.drain()).toEqual(['k2'])
  },
  async 'are paged without gaps, the newest last, with an exact total'(scene) {
    await scene.subscribe('billing')
    for (let round = 0; round < 3; round++) {
      const messages = numbered(`r${round}-`, 5)
      await scene.send(...messages)
      await scene.kill(messages.map(({ id }) => id))
    }
    const seen: string[] = []
    let after: { openedAt: number; ref: number } | undefined
    for (let pages = 0; pages < 10; pages++) {
      const page = await scene.store.reads.deadLetters({ limit: 4, ...(after && { after }) })
      scene.expect(page.total).toBe(15)
      const last = page.letters.at(-1)
      if (!last) break
      seen.push(...page.letters.map(letter => letter.id))
      after = { openedAt: last.openedAt, ref: last.ref }
    }
    // Within one moment any order will do.
    const rounds = [0, 1, 2].map(round => seen.slice(5 * round, 5 * round + 5).sort())
    scene.expect(rounds).toEqual([0, 1, 2].map(round => [0, 1, 2, 3, 4].map(n => `r${round}-${n}`)))
    scene.expect(seen.length).toBe(15)
  },
  async 'are found by consumer, id and code'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(message('m1'), message('m2'))
    await scene.kill(['m1', 'm2'])
    await scene.defer(await scene.claim('shipping'), { to: 'dead', error: { ...BROKEN, code: 'OTHER' } })
    const found = async (query: object) => {
      const { letters, total } = await scene.store.reads.deadLetters({ limit: 100, ...query })
      scene.expect(total).toBe(letters.length)
      return letters.map(letter => `${letter.consumer} ${letter.id}`).sort()
    }
    scene.expect(await found({ consumer: 'billing' })).toEqual(['billing m1', 'billing m2'])
    scene.expect(await found({ id: 'm2' })).toEqual(['billing m2', 'shipping m2'])
    scene.expect(await found({ code: 'OTHER', id: 'm1' })).toEqual(['shipping m1'])
    scene.expect(await found({ code: 'NONE' })).toEqual([])
  },
  async 'show their payload byte for byte'(scene) {
    await scene.subscribe('billing')
    const body = new Uint8Array(256).map((_, index) => index)
    await scene.send(message('m1', { body, headers: '{"__proto__":"x","a":"\\u0000"}' }))
    await scene.kill(['m1'])
    const payload = await scene.store.reads.payload(scene.name('m1'))
    scene.expect(payload?.headers).toBe('{"__proto__":"x","a":"\\u0000"}')
    scene.expect(Buffer.from(payload?.body ?? []).equals(Buffer.from(body))).toBe(true)
    scene.expect(await scene.store.reads.payload(scene.name('m2'))).toBe(null)
  },
}

async function audits(scene: Scene): Promise<number> {
  const sql = `select count(*) as n from ${scene.fixture.table('audit')}`
  const row = await scene.transaction(session => session.lease('').tx.get<{ n: unknown }>(sql))
  return Number(row?.n)
}

export const reprocessing: Tests<Scene> = {
  async 'a redrive starts again at its place, with the attempts of a new cycle'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    const first = await scene.claim('billing', 'p1', 1)
    await scene.defer(first, { to: 'dead' })
    scene.expect(await scene.drain()).toEqual([])
    await scene.redrive('k1')
    const again = await scene.claim()
    scene.expect(again.deliveries[0]).toMatchObject({ id: 'k1', attempt: 1 })
    scene.expect(again.deliveries[0]?.cycle).toBeGreaterThan(first.deliveries[0]?.cycle ?? 0)
    scene.expect(await scene.letters()).toEqual([])
    await scene.finish(again)
    await scene.drain()
    scene
      .expect([await scene.stateOf('k2'), await scene.counters('billing')])
      .toMatchObject(['done', { dead: 0, done: 2 }])
  },
  async 'a redrive that fails again is one dead letter of the next cycle'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.kill(['m1'])
    const [first] = await scene.letters()
    await scene.redrive('m1')
    await scene.kill(['m1'])
    const [second, ...others] = await scene.letters()
    scene.expect([second?.id, others]).toEqual(['m1', []])
    scene.expect(second?.cycle).toBeGreaterThan(first?.cycle ?? 0)
    const [trace] = await scene.store.reads.trace('m1')
    scene.expect(trace?.history.map(({ outcome }) => outcome)).toEqual(['dead', 'dead'])
  },
  async 'one that was passed goes to the end of the order'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2', 'k3'))
    await scene.defer(await scene.claim('billing', 'p1', 1), { to: 'dead', onDead: 'pass' })
    await scene.redrive('k1')
    scene.expect(await scene.drain()).toEqual(['k2', 'k3', 'k1'])
  },
  async 'a second redrive is refused, and what nobody knows is not found'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    await scene.kill(['m1'])
    await scene.redrive('m1')
    scene.expect(await codeOf(() => scene.redrive('m1'))).toBe('CONFLICT')
    const claim = await scene.claim()
    scene.expect(await codeOf(() => scene.discard('m1'))).toBe('CONFLICT')
    await scene.finish(claim)
    scene.expect(await codeOf(() => scene.redrive('m1'))).toBe('CONFLICT')
    scene.expect(await codeOf(() => scene.redrive('none'))).toBe('NOT_FOUND')
    scene.expect(await codeOf(() => scene.discard('none'))).toBe('NOT_FOUND')
    scene.expect(await codeOf(() => scene.unblock('none'))).toBe('NOT_FOUND')
    scene.expect(await codeOf(() => scene.edit('none', 'heir'))).toBe('NOT_FOUND')
    scene.expect(await codeOf(() => scene.redrive('m1', 'nobody'))).toBe('NOT_FOUND')
  },
  async 'a discard closes for good and lets the followers go'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.kill(['k1'])
    scene.expect(await scene.drain()).toEqual([])
    await scene.discard('k1')
    scene.expect([await scene.stateOf('k1'), await scene.letters()]).toEqual(['discarded', []])
    scene.expect(await scene.drain()).toEqual(['k2'])
    scene.expect(await scene.counters('billing')).toMatchObject({ discarded: 1, dead: 0, done: 1 })
    scene.expect(await codeOf(() => scene.discard('k1'))).toBe('CONFLICT')
  },
  async 'an unblocked key goes on while its dead letter stays'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.kill(['k1'])
    scene.expect(await scene.drain()).toEqual([])
    await scene.unblock('k1')
    scene.expect(await scene.drain()).toEqual(['k2'])
    scene.expect(await scene.letters()).toMatchObject([{ id: 'k1', state: 'passed', followers: 0 }])
    await scene.redrive('k1')
    scene.expect(await scene.drain()).toEqual(['k1'])
  },
  async 'an edit takes the place, for this consumer alone'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(message('k1', { key: 'k', headers: '{"trace":"1"}' }), ...keyed('k', 'k2'))
    await scene.kill(['k1'])
    await scene.edit('k1', 'k1-edited')
    scene.expect([await scene.stateOf('k1'), await scene.letters()]).toEqual(['replaced', []])
    const claim = await scene.claim()
    scene.expect(idsOf(claim)).toEqual(['k1-edited', 'k2'])
    const kept = { key: 'k', headers: '{"trace":"1"}', version: 2, topic: ORDERS, attempt: 1 }
    scene.expect(claim.deliveries[0]).toMatchObject(kept)
    scene.expect(Buffer.from(claim.deliveries[0]?.body ?? []).toString()).toBe('{"edited":"k1-edited"}')
    await scene.finish(claim)
    scene.expect(await scene.drain('shipping')).toEqual(['k1', 'k2'])
    scene.expect(await scene.counters('billing')).toMatchObject({ accepted: 3, replaced: 1, dead: 0, done: 2 })
    scene.expect(await codeOf(() => scene.edit('k1', 'again'))).toBe('CONFLICT')
  },
  async 'an edit under an id that is taken is refused and changes nothing'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.kill(['k1'])
    scene.expect(await codeOf(() => scene.edit('k1', 'k2'))).not.toBe('nothing')
    scene.expect(await scene.stateOf('k1')).toBe('dead')
  },
  async 'a late settle of what was edited meanwhile is fenced'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1'))
    const late = await scene.claim()
    await scene.lose('p1', 'p3')
    await scene.defer(await scene.claimSuspect('billing', 'p3'), { to: 'dead' })
    await scene.edit('m1', 'm1-edited')
    scene.expect(await codeOf(() => scene.finish(late))).toBe('FENCED')
    scene.expect(await scene.drain('billing', 'p3')).toEqual(['m1-edited'])
    scene.expect(await codeOf(() => scene.finish(late))).toBe('FENCED')
    scene.expect(await scene.counters('billing')).toMatchObject({ done: 1, replaced: 1 })
  },
  async 'each change by hand leaves one audit row, a refused one none'(scene) {
    await scene.subscribe('billing')
    await scene.send(...numbered('m', 4))
    await scene.kill(['m0', 'm1', 'm2', 'm3'])
    const before = await audits(scene)
    await scene.redrive('m0')
    await scene.discard('m1')
    await scene.edit('m2', 'm2-edited')
    await scene.unblock('m3')
    scene.expect((await audits(scene)) - before).toBe(4)
    await codeOf(() => scene.redrive('m0'))
    scene.expect((await audits(scene)) - before).toBe(4)
    await scene.store.audit('drill', 'billing', { actor: 'bob', reason: '' }, { a: [1, 'x\u0000'] })
    scene.expect((await audits(scene)) - before).toBe(5)
  },
}

export const replacing: Tests<Scene> = {
  async 'one that waits is closed, and its place passes on'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.defer(await scene.claim('billing', 'p1', 1), { to: 'retry', delayMs: 60_000 })
    await scene.drain()
    await scene.send(message('k1b', { key: 'k', replaces: 'k1' }))
    scene.expect(await scene.stateOf('k1')).toBe('replaced')
    scene.expect(await scene.drain()).toEqual(['k1b', 'k2'])
    scene.expect(await scene.counters('billing')).toMatchObject({ replaced: 1, done: 2 })
  },
  async 'a dead one is closed with its case'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    await scene.kill(['k1'])
    await scene.send(message('k1b', { key: 'k', replaces: 'k1' }))
    scene.expect(await scene.letters()).toEqual([])
    scene.expect(await scene.drain()).toEqual(['k1b', 'k2'])
    scene.expect(await scene.counters('billing')).toMatchObject({ replaced: 1, dead: 0, done: 2 })
  },
  async 'a done one makes the new one a duplicate'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('k1'))
    await scene.drain()
    await scene.send(message('k1b', { replaces: 'k1' }))
    const claim = await scene.claim()
    scene.expect(claim.deliveries).toMatchObject([{ id: 'k1b', replaces: 'k1' }])
    scene.expect(await scene.transaction(session => session.deliveries.isDone('billing', ORDERS, 'k1'))).toBe(true)
    await scene.finish(claim, 'duplicate')
    scene.expect(await scene.counters('billing')).toMatchObject({ done: 1, duplicate: 1 })
  },
  async 'a running one is waited for, and when it dies its place passes on'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1', 'k2'))
    const running = await scene.claim('billing', 'p1', 1)
    await scene.send(message('k1b', { key: 'k', replaces: 'k1' }))
    scene.expect(await scene.drain('billing', 'p2')).toEqual([])
    await scene.defer(running, { to: 'dead' })
    scene.expect([await scene.stateOf('k1'), await scene.letters()]).toEqual(['replaced', []])
    scene.expect(await scene.drain()).toEqual(['k1b', 'k2'])
  },
  async 'a running one that is done leaves the new one to be a duplicate'(scene) {
    await scene.subscribe('billing')
    await scene.send(...keyed('k', 'k1'))
    const running = await scene.claim('billing', 'p1', 1)
    await scene.send(message('k1b', { key: 'k', replaces: 'k1' }))
    await scene.finish(running)
    scene.expect((await scene.claim()).deliveries).toMatchObject([{ id: 'k1b', replaces: 'k1' }])
  },
  async 'each consumer is asked by itself'(scene) {
    await scene.subscribe('billing')
    await scene.subscribe('shipping')
    await scene.send(message('k1'))
    await scene.drain('billing')
    await scene.send(message('k1b', { replaces: 'k1' }))
    scene
      .expect([await scene.stateOf('k1', 'billing'), await scene.stateOf('k1', 'shipping')])
      .toEqual(['done', 'replaced'])
    scene.expect(await scene.drain('shipping')).toEqual(['k1b'])
  },
  async 'one that is replaced never runs, even when it comes later'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('k1b', { key: 'k', replaces: 'k1' }))
    await scene.send(...keyed('k', 'k1'))
    scene.expect(await scene.drain()).toEqual(['k1b'])
  },
}
