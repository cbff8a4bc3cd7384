import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineMessage, PermanentError, TransientError } from '../../src/index.ts'
import { createScene, order, write } from './scene.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

describe('a message', () => {
  test('is done once, also when it is sent twice', async () => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    expect(await scene.ichido.send(order, { n: 1 }, { id: 'a' })).toEqual({ id: 'a', duplicate: false, kept: false })
    expect(await scene.ichido.send(order, { n: 1 }, { id: 'a' })).toEqual({ id: 'a', duplicate: true, kept: false })
    await scene.finish()
    expect(await scene.effects()).toEqual([1])
  })

  test('whose id was used for other contents is refused, and those sent beside it are not', async () => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    await scene.ichido.send(order, { n: 1 }, { id: 'a' })
    const sends = await Promise.allSettled([
      scene.ichido.send(order, { n: 2 }),
      scene.ichido.send(order, { n: 9 }, { id: 'a' }),
      scene.ichido.send(order, { n: 3 }),
    ])
    expect(sends.map(send => send.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect((sends[1] as PromiseRejectedResult).reason).toMatchObject({ code: 'ID_REUSED' })
    await scene.finish()
    expect(await scene.effects()).toEqual([1, 2, 3])
  })

  test('is tried again after a transient error, with its planned and real times', async () => {
    await using scene = await createScene({
      handle({ message, tx, attempt }) {
        write(tx, message.data.n)
        if (attempt < 3) throw new TransientError('not yet')
      },
    })
    await scene.ichido.send(order, { n: 1 }, { id: 'a' })
    await scene.finish()
    expect(await scene.effects()).toEqual([1])
    const [trace] = await scene.store.reads.trace('a')
    expect(trace?.history.map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'retry'],
      [2, 'retry'],
      [3, 'done'],
    ])
    for (const { plannedAt, startedAt } of trace?.history.slice(1) ?? [])
      expect(startedAt).toBeGreaterThanOrEqual(plannedAt as number)
  })

  test('is dead when the attempts are used up, and reported once with its id', async () => {
    await using scene = await createScene({
      handle() {
        throw new Error('always')
      },
    })
    await scene.ichido.send(order, { n: 1 }, { id: 'a' })
    await scene.finish()
    expect(await scene.dead()).toMatchObject([
      { id: 'a', state: 'dead', message: 'always', label: 'rolled back', attempts: 4 },
    ])
    expect(scene.reports).toMatchObject([{ id: 'a', consumer: 'billing', error: { message: 'always' } }])
  })

  test('is dead at once after a permanent error', async () => {
    await using scene = await createScene({
      handle() {
        throw new PermanentError('no such account', { code: 'NO_ACCOUNT' })
      },
    })
    await scene.ichido.send(order, { n: 1 }, { id: 'a' })
    await scene.finish()
    expect(await scene.dead()).toMatchObject([{ class: 'business', code: 'NO_ACCOUNT', attempts: 1 }])
  })

  test('may be stale', async () => {
    await using scene = await createScene({
      handle({ message, tx }) {
        if (!tx.advance('thing', message.data.n)) return 'stale'
        write(tx, message.data.n)
        return undefined
      },
    })
    for (const n of [1, 3, 2, 3, 4]) await scene.ichido.send(order, { n })
    await scene.finish()
    expect(await scene.effects()).toEqual([1, 3, 4])
    expect(scene.settled.filter(event => event.outcome === 'stale')).toHaveLength(2)
  })
})

describe('a batch', () => {
  test('with one bad message does the others once, and charges only the bad one', async () => {
    await using scene = await createScene({
      handle({ message, tx }) {
        write(tx, message.data.n)
        if (message.data.n === 57) throw new PermanentError('bad')
      },
    })
    await scene.ichido.transaction(async ({ send }) => {
      for (const n of numbers(100)) await send(order, { n }, { id: `m${n}` })
    })
    await scene.finish()
    expect(await scene.effects()).toEqual(numbers(100).filter(n => n !== 57))
    expect(scene.settled.filter(event => event.attempt > 1)).toEqual([])
  })

  test('keeps the order of a key through failures', async () => {
    const order1 = await createScene({
      handle({ message, tx, attempt }) {
        if (message.data.n % 7 === 3 && attempt === 1) throw new Error('once')
        write(tx, message.data.n)
      },
    })
    await using scene = order1
    for (const n of numbers(60)) await scene.ichido.send(order, { n }, { key: `k${n % 3}` })
    await scene.finish()
    const done = await scene.effects()
    for (const key of [0, 1, 2]) {
      expect(done.filter(n => n % 3 === key)).toEqual(numbers(60).filter(n => n % 3 === key))
    }
  })

  test.each([
    ['block', [0], ['m2', 'm4'], 1],
    ['pass', [0, 2, 4], [], 0],
  ] as const)('lets the followers of a dead letter wait or go: %s', async (onDead, evens, _, followers) => {
    await using scene = await createScene({
      onDead,
      handle({ message, tx }) {
        if (message.data.n === 1) throw new PermanentError('bad')
        write(tx, message.data.n)
      },
    })
    const sent = onDead === 'block' ? [0, 1, 2] : [0, 1, 2, 4]
    for (const n of sent) await scene.ichido.send(order, { n }, { key: 'k' })
    await scene.ichido.idle()
    await expect.poll(() => scene.effects()).toEqual(evens)
    expect((await scene.dead())[0]?.followers).toBe(followers)
    if (onDead === 'block') {
      const [letter] = await scene.dead()
      await scene.store.transaction(session => session.cases.discard(letter as never, { actor: 'me', reason: 'a try' }))
      await expect.poll(() => scene.effects()).toEqual([0, 2])
    }
    await scene.finish()
  })
})

describe('a handler', () => {
  test('that awaits something else than tx is rolled back and told so', async () => {
    await using scene = await createScene({
      async handle({ message, tx }) {
        write(tx, message.data.n)
        await new Promise(resolve => setTimeout(resolve, 5))
      },
    })
    await scene.ichido.send(order, { n: 1 })
    await scene.finish()
    expect(await scene.effects()).toEqual([])
    expect(await scene.dead()).toMatchObject([{ code: 'TX_AWAITED_OUTSIDE' }])
  })

  test('that swallows a failed statement is not acked', async () => {
    await using scene = await createScene({
      handle({ message, tx }) {
        write(tx, message.data.n)
        try {
          tx.run('insert into nothing values (1)')
        } catch {}
      },
    })
    await scene.ichido.send(order, { n: 1 })
    await scene.finish()
    expect(await scene.effects()).toEqual([])
    expect(await scene.dead()).toMatchObject([{ code: 'TX_STATEMENT_FAILED' }])
  })

  test('cannot use tx or send after it has returned', async () => {
    const late: unknown[] = []
    await using scene = await createScene({
      handle({ message, tx, send }) {
        write(tx, message.data.n)
        void Promise.resolve()
          .then(() => new Promise(resolve => setTimeout(resolve, 5)))
          .then(() => write(tx, 100))
          .catch(error => late.push(error.code))
          .then(() => send(order, { n: 200 }))
          .catch(error => late.push(error.code))
      },
    })
    await scene.ichido.send(order, { n: 1 })
    await scene.finish()
    await expect.poll(() => late).toEqual(['TX_CLOSED', 'TX_CLOSED'])
    expect(await scene.effects()).toEqual([1])
  })

  test('sends with its effect or not at all', async () => {
    await using scene = await createScene({
      async handle({ message, tx, send, attempt }) {
        write(tx, message.data.n)
        if (message.data.n < 10) await send(order, { n: message.data.n + 10 })
        if (attempt === 1 && message.data.n === 2) throw new Error('after the send')
      },
    })
    for (const n of [1, 2, 3]) await scene.ichido.send(order, { n })
    await scene.finish()
    expect((await scene.effects()).sort((a, b) => a - b)).toEqual([1, 2, 3, 11, 12, 13])
  })

  test('whose send reuses an id is at fault, and nobody else', async () => {
    await using scene = await createScene({
      async handle({ message, tx, send }) {
        write(tx, message.data.n)
        if (message.data.n === 2) await send(order, { n: 99 }, { id: 'm1' })
      },
    })
    await scene.ichido.transaction(async ({ send }) => {
      for (const n of [1, 2, 3]) await send(order, { n }, { id: `m${n}` })
    })
    await scene.finish()
    expect(await scene.effects()).toEqual([1, 3])
    expect(await scene.dead()).toMatchObject([{ id: 'm2', code: 'ID_REUSED' }])
  })

  test.each([
    ['undefined', undefined],
    ['a symbol', Symbol('x')],
    ['200 kB of text with U+0000 and half a surrogate pair', new Error(`\u0000\ud800${'x'.repeat(200_000)}`)],
    [
      'a proxy that throws',
      new Proxy(
        {},
        {
          get: () => {
            throw new Error('no')
          },
          getPrototypeOf: () => {
            throw new Error('no')
          },
        },
      ),
    ],
  ])('may throw %s', async (_, thrown) => {
    await using scene = await createScene({
      retry: { maxAttempts: 1 },
      handle() {
        throw thrown
      },
    })
    await scene.ichido.send(order, { n: 1 })
    await scene.finish()
    const [letter] = await scene.dead()
    expect(letter?.state).toBe('dead')
    expect(Buffer.byteLength(letter?.message ?? '')).toBeLessThanOrEqual(8 * 1024)
  })

  test('gets what prepare returned; a failing prepare is retried and keeps the order of its key', async () => {
    let failures = 2
    await using scene = await createScene({
      async prepare({ message }) {
        await new Promise(resolve => setTimeout(resolve, 1))
        if (message.data.n === 1 && failures-- > 0) throw new TransientError('busy')
        return message.data.n * 2
      },
      handle: ({ prepared, tx }) => write(tx, prepared as number),
    })
    for (const n of [0, 1, 2]) await scene.ichido.send(order, { n }, { key: 'k' })
    await scene.finish()
    expect(await scene.effects()).toEqual([0, 2, 4])
  })
})

describe('parsing', () => {
  const old = defineMessage({ type: 'order', schema: z.any() })
  const newer = defineMessage({ type: 'order', version: 3, schema: z.any() })

  test('a newer version waits for the deploy and burns no attempts', async () => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    await scene.ichido.send(newer, { n: 1 }, { id: 'a' })
    await expect.poll(async () => (await scene.store.reads.trace('a'))[0]?.waiting).toBe('version')
    expect((await scene.store.reads.trace('a'))[0]?.attempts).toBe(0)
  })

  test('older versions are upcast step by step; a missing step is a dead letter', async () => {
    const current = defineMessage({
      type: 'order',
      version: 3,
      schema: z.object({ n: z.number() }),
      upcast: { 2: (body: { m: number }) => ({ n: body.m }) },
    })
    await using scene = await createScene({
      messages: [current as never],
      handle: ({ message, tx }) => write(tx, message.data.n),
    })
    const second = defineMessage({ type: 'order', version: 2, schema: z.any() })
    await scene.ichido.send(second, { m: 2 })
    await scene.ichido.send(old, { m: 1 })
    await scene.finish()
    expect(await scene.effects()).toEqual([2])
    expect(await scene.dead()).toMatchObject([{ code: 'NO_UPCAST', class: 'system', label: 'never started' }])
  })

  test('what does not fit the schema is dead at once, with its bytes, and blocks nobody without a key', async () => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    await scene.ichido.send(old, { n: 'one' }, { id: 'bad' })
    await scene.ichido.send(order, { n: 2 })
    await scene.finish()
    expect(await scene.effects()).toEqual([2])
    expect(await scene.dead()).toMatchObject([{ id: 'bad', code: 'INVALID_DATA', class: 'format' }])
    const payload = await scene.store.reads.payload({ consumer: 'billing', topic: 'order', id: 'bad' })
    expect(Buffer.from(payload?.body ?? []).toString()).toBe('{"n":"one"}')
  })

  test('a type that the consumer does not list is ignored and counted', async () => {
    await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
    await scene.ichido.send(defineMessage({ type: 'other', topic: 'order', schema: z.any() }), { n: 1 })
    await scene.finish()
    expect(scene.settled).toMatchObject([{ outcome: 'ignored' }])
  })

  test('hostile names of properties arrive equal and pollute nothing', async () => {
    const seen: unknown[] = []
    await using scene = await createScene({
      messages: [old as never],
      handle: ({ message }) => void seen.push(message.data),
    })
    const input = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":2}}')
    await scene.ichido.send(old, input)
    await scene.finish()
    expect(JSON.stringify(seen[0])).toBe(JSON.stringify(input))
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })
})
