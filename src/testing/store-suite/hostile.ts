import type { StoredError } from '../../contracts/outcome.ts'
import type { Tests } from '../test-framework.ts'
import { bytes, idsOf, message, type Scene } from './scene.ts'

const hostileTexts = ['\u0000', 'a\u0000b', '\ud800', 'x\udc00y', '\u{1F600}'.repeat(50_000), 'é'.repeat(100_000), '']

function hostile(text: string): StoredError {
  return { class: 'system', code: `C${text.slice(0, 50)}`, message: text, stack: text }
}

export const hostileTextsAreStored: Tests<Scene> = {
  async 'a failure of any text is stored when it is retried'(scene) {
    await scene.subscribe('billing')
    for (const [index, text] of hostileTexts.entries()) {
      await scene.send(message(`m${index}`))
      await scene.defer(await scene.claim(), { to: 'retry', delayMs: 1e9, error: hostile(text) })
      scene.expect(await scene.stateOf(`m${index}`)).toBe('retry')
    }
  },
  async 'a failure of any text is stored when it is dead, and can be read again'(scene) {
    await scene.subscribe('billing')
    for (const [index, text] of hostileTexts.entries()) {
      await scene.send(message(`m${index}`))
      await scene.defer(await scene.claim(), { to: 'dead', error: hostile(text) })
    }
    const letters = await scene.letters()
    scene.expect(letters.map(letter => letter.id)).toEqual(hostileTexts.map((_, index) => `m${index}`))
    scene
      .expect(letters.map(letter => JSON.parse(JSON.stringify(letter.message))))
      .toEqual(letters.map(letter => letter.message))
  },
  async 'a failure of any text is taken into custody'(scene) {
    for (const [index, text] of hostileTexts.entries()) {
      const verdicts = await scene.custody([scene.copy(`m${index}`)], { to: 'dead', error: hostile(text) })
      scene.expect(verdicts).toEqual(['stored'])
    }
    scene.expect((await scene.letters()).length).toBe(hostileTexts.length)
  },
  async 'unreadable copies with any header and any text are kept'(scene) {
    const entries = hostileTexts.map((text, index) => ({
      copy: { ...scene.copy('x'), id: null, key: text, type: text, headers: { [text]: text }, body: bytes(text) },
      rawId: `raw~${index}`,
      error: hostile(text),
    }))
    await scene.transaction(session => session.deliveries.takeUnreadable(scene.origin(), entries))
    scene.expect((await scene.letters()).map(letter => letter.id)).toEqual(entries.map(entry => entry.rawId))
  },
  async 'actors and reasons of any text are audited'(scene) {
    await scene.subscribe('billing')
    for (const [index, text] of hostileTexts.entries()) {
      await scene.send(message(`m${index}`))
      await scene.kill([`m${index}`])
      const by = { actor: text, reason: text }
      await scene.transaction(session => session.cases.discard(scene.name(`m${index}`), by))
      await scene.store.audit(text, text, by, { text, nested: [text] })
    }
    scene.expect(await scene.counters('billing')).toMatchObject({ discarded: hostileTexts.length })
  },
}

export const boundaries: Tests<Scene> = {
  async 'bodies of every byte, empty ones and large ones arrive as they were'(scene) {
    await scene.subscribe('billing')
    const every = new Uint8Array(256).map((_, index) => index)
    const bodies = [every, new Uint8Array(0), new Uint8Array(256 * 1024).fill(7), bytes('\u0000')]
    // A view into a larger buffer, as a network library hands out.
    bodies.push(new Uint8Array([9, 9, 1, 2, 3, 9]).subarray(2, 5))
    await scene.send(...bodies.map((body, index) => message(`m${index}`, { body })))
    const claim = await scene.claim()
    const same = claim.deliveries.map((delivery, index) => Buffer.from(bodies[index] ?? []).equals(delivery.body))
    scene.expect(same).toEqual(bodies.map(() => true))
  },
  async 'ids and keys at their limits are told apart by their bytes'(scene) {
    await scene.subscribe('billing')
    const longest = 'é'.repeat(127)
    const ids = [
      `${longest}a`,
      `${longest}b`,
      'A',
      'a',
      'a ',
      '1',
      '01',
      '1.0',
      '__proto__',
      "'; --",
      '%',
      '\\',
      '{}',
      'é',
      'e\u0301',
    ]
    await scene.send(...ids.map(id => message(id, { key: id })))
    const claim = await scene.claim()
    scene.expect(claim.deliveries.map(delivery => [delivery.id, delivery.key])).toEqual(ids.map(id => [id, id]))
    await scene.finish(claim)
    scene
      .expect((await scene.send(...ids.map(id => message(id, { key: id })))).every(({ duplicate }) => duplicate))
      .toBe(true)
    scene.expect(await scene.stateOf('__proto__')).toBe('done')
  },
  async 'names that an object has by itself are names like any other'(scene) {
    for (const name of ['constructor', 'tostring', 'valueof', 'a'.repeat(100)]) {
      await scene.subscribe(name, name)
      await scene.send(message(`m-${name}`, { topic: name }))
      const claim = await scene.claim(name)
      scene.expect(idsOf(claim)).toEqual([`m-${name}`])
      await scene.finish(claim)
      scene.expect(await scene.counters(name)).toMatchObject({ accepted: 1, done: 1 })
    }
  },
  async 'versions and times at the edge of exact integers arrive as they were'(scene) {
    await scene.subscribe('billing')
    await scene.send(message('m1', { version: 2_147_483_647, sentAt: 0 }), message('m2', { sentAt: 8_000_000_000_000 }))
    const { deliveries } = await scene.claim()
    scene.expect(deliveries).toMatchObject([{ version: 2_147_483_647, sentAt: 0 }, { sentAt: 8_000_000_000_000 }])
  },
  async 'a thousand messages to three consumers in one transaction'(scene) {
    for (const consumer of ['billing', 'shipping', 'mailing']) await scene.subscribe(consumer)
    const messages = Array.from({ length: 1_000 }, (_, index) => message(`m${index}`, { key: `k${index % 7}` }))
    const accepted = await scene.send(...messages)
    scene.expect(accepted.every(({ fanOut }) => fanOut === 3)).toBe(true)
    for (const consumer of ['billing', 'shipping', 'mailing']) {
      scene.expect(await scene.drain(consumer, 'p1', 1_000)).toEqual(messages.map(({ id }) => id))
    }
  },
}
