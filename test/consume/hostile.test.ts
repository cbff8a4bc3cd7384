import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineConsumer, defineIchido, defineMessage, start, TransientError } from '../../src/index.ts'
import { hashContents } from '../../src/send/identity.ts'
import { memory } from '../../src/stores/memory.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { createScene, order, type Scene, write } from './scene.ts'

const folder = mkdtempSync(join(tmpdir(), 'ichido-hostile-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** As a foreign or broken producer would: bytes that `send` never makes. */
async function sendRaw({ store }: Scene, id: string, body: Uint8Array, headers = '{}'): Promise<void> {
  const hash = hashContents('order', 1, null, body)
  const content = { type: 'order', version: 1, key: null, headers, body, hash }
  const rest = { sentAt: null, dueAt: null, delayMs: null, replaces: null }
  await store.transaction(session => session.deliveries.accept([{ id, topic: 'order', ...content, ...rest }]))
}

describe('bytes that are no message', () => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  test.each([
    ['invalid UTF-8', Uint8Array.of(0x7b, 0xff, 0xfe, 0x7d), 'UNDECODABLE'],
    ['an overlong slash', Uint8Array.of(0x22, 0xc0, 0xaf, 0x22), 'UNDECODABLE'],
    ['half a surrogate pair', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22), 'UNDECODABLE'],
    ['UTF-16', Buffer.from('{"n":1}', 'utf16le'), 'UNDECODABLE'],
    ['a byte order mark', Buffer.from('\ufeff{"n":1}'), 'UNDECODABLE'],
    ['nothing', new Uint8Array(0), 'UNDECODABLE'],
    ['two values', Buffer.from('{"n":1}{"n":2}'), 'UNDECODABLE'],
    ['U+0000 behind the value', Buffer.from('{"n":1}\u0000'), 'UNDECODABLE'],
    ['65 levels', Buffer.from(nested(65)), 'UNDECODABLE'],
    ['100,000 levels', Buffer.from(nested(100_000)), 'UNDECODABLE'],
    ['64 levels, which the schema refuses', Buffer.from(nested(64)), 'INVALID_DATA'],
    ['null', Buffer.from('null'), 'INVALID_DATA'],
    ['a number that is infinite', Buffer.from('{"n":1e999}'), 'INVALID_DATA'],
  ])('%s: dead at once with the bytes as they came, and the next is done', async (_, body, code) => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    await sendRaw(scene, 'bad', body)
    await scene.ichido.send(order, { n: 2 })
    await scene.finish()
    expect(await scene.dead()).toMatchObject([{ id: 'bad', code, class: 'format', label: 'never started' }])
    const payload = await scene.store.reads.payload({ consumer: 'billing', topic: 'order', id: 'bad' })
    expect(Buffer.from(payload?.body ?? []).equals(Buffer.from(body))).toBe(true)
    expect(await scene.effects()).toEqual([2])
  })

  test('brackets inside strings and escaped quotes are not levels', async () => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    await sendRaw(scene, 'ok', Buffer.from(`{"n":1,"what":"${'[{'.repeat(500)}\\"${'['.repeat(100)}\\\\"}`))
    await scene.finish()
    expect(await scene.effects()).toEqual([1])
  })
})

describe('schemas that misbehave', () => {
  const standard = (validate: (value: unknown) => unknown) => ({ '~standard': { version: 1, vendor: 'x', validate } })
  test.each([
    [
      'throws',
      () => {
        throw new Error('schema')
      },
    ],
    ['rejects', () => Promise.reject(new Error('schema'))],
    ['throws nothing', () => Promise.reject(undefined)],
  ])('one that %s makes its message a dead letter, not the worker', async (_, validate) => {
    const odd = defineMessage({ type: 'order', schema: standard(validate) as never })
    await using scene = await createScene({ messages: [odd as never], handle() {} })
    await sendRaw(scene, 'm1', Buffer.from('{"n":1}'))
    await scene.finish()
    expect(await scene.dead()).toMatchObject([{ id: 'm1', code: 'INVALID_DATA', attempts: 1 }])
  })

  test('an upcast that throws is told, and a redrive after the repair succeeds', async () => {
    const path = join(folder, 'upcast.db')
    const versions = (upcast: (body: { m: number }) => unknown) =>
      defineMessage({ type: 'order', version: 2, schema: z.object({ n: z.number() }), upcast: { 1: upcast } })
    const life = async (message: ReturnType<typeof versions>) => {
      const store = sqlite(path)
      const seen: unknown[] = []
      const billing = defineConsumer({
        store,
        name: 'billing',
        messages: [message],
        handle: input => void seen.push(input.message.data),
      })
      return { seen, ichido: await start(defineIchido({ store, consumers: [billing], pollMs: 20 })) }
    }
    const before = await life(
      versions(() => {
        throw new Error('no m')
      }),
    )
    await before.ichido.send(defineMessage({ type: 'order', schema: z.any() }), { m: 7 }, { id: 'm1' })
    await before.ichido.idle()
    const [letter] = (await before.ichido.store.reads.deadLetters({ limit: 1 })).letters
    expect(letter).toMatchObject({ code: 'UPCAST_FAILED', class: 'system' })
    await before.ichido.stop()
    const after = await life(versions(body => ({ n: body.m })))
    await after.ichido.store.transaction(session =>
      session.cases.redrive(letter as never, { actor: 'me', reason: 'mended' }),
    )
    await after.ichido.idle()
    expect(after.seen).toEqual([{ n: 7 }])
    await after.ichido.stop()
  })
})

test('what waits for a newer version runs after the deploy, in the order of its key and uncharged', async () => {
  const path = join(folder, 'deploy.db')
  const old1 = defineMessage({ type: 'order', schema: z.any() })
  const new2 = defineMessage({ type: 'order', version: 2, schema: z.any(), upcast: { 1: body => body } })
  const life = async (known: typeof old1 | typeof new2) => {
    const store = sqlite(path)
    const seen: string[] = []
    const billing = defineConsumer({
      ...{ store, name: 'billing', messages: [known], retry: { maxAttempts: 1 } },
      handle: ({ message, attempt }) => void seen.push(`${message.id}: ${attempt}`),
    })
    return { seen, ichido: await start(defineIchido({ store, consumers: [billing], pollMs: 20 })) }
  }
  const old = await life(old1)
  for (const [id, n] of [
    ['a', 1],
    ['b', 2],
    ['c', 1],
    ['d', 2],
  ] as const) {
    await old.ichido.send(n === 2 ? new2 : old1, {}, { id, key: 'k' })
  }
  await old.ichido.idle()
  expect(old.seen).toEqual(['a: 1'])
  await old.ichido.stop()
  const young = await life(new2)
  await expect.poll(() => young.seen.length, { timeout: 5_000 }).toBe(3)
  expect(young.seen).toEqual(['b: 1', 'c: 1', 'd: 1'])
  await young.ichido.stop()
})

describe('hooks', () => {
  test('a listener or an onError that throws, or rejects, harms no message', async () => {
    const store = memory()
    const reports: string[] = []
    const billing = defineConsumer({
      ...{ store, name: 'billing', messages: [order], retry: { maxAttempts: 1 } },
      handle({ message }) {
        if (message.data.n % 2 === 1) throw new TransientError('odd')
      },
    })
    const onError = (report: { id: string }) => {
      reports.push(report.id)
      if (reports.length % 2 === 0) throw new Error('tracker')
      return Promise.reject(new Error('tracker, later'))
    }
    const ichido = await start(defineIchido({ store, consumers: [billing], pollMs: 20, onError }))
    ichido.on('settled', () => {
      throw new Error('listener')
    })
    for (let n = 0; n < 6; n++) await ichido.send(order, { n }, { id: `m${n}` })
    await ichido.idle()
    expect(reports.sort()).toEqual(['m1', 'm3', 'm5'])
    expect((await store.reads.deadLetters({ limit: 9 })).total).toBe(3)
    expect((await store.reads.trace('m4'))[0]?.state).toBe('done')
    await ichido.stop()
  })
})
