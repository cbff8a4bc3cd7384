import { expect, test } from 'vitest'
import { createScene, order, write } from './scene.ts'

test('a prepare that takes too long is aborted and charged, and its neighbours are done once', async () => {
  const reasons: unknown[] = []
  await using scene = await createScene({
    timeoutMs: 40,
    retry: { maxAttempts: 2, baseMs: 2, capMs: 2 },
    async prepare({ message, signal }) {
      if (message.data.n !== 1) return
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
      reasons.push((signal.reason as { code: string }).code)
    },
    handle: ({ message, tx }) => write(tx, message.data.n),
  })
  await scene.ichido.transaction(async ({ send }) => {
    for (const n of [0, 1, 2]) await send(order, { n }, { id: `m${n}` })
  })
  await scene.finish()
  expect(await scene.effects()).toEqual([0, 2])
  expect(reasons).toEqual(['HANDLER_TIMEOUT', 'HANDLER_TIMEOUT'])
  const letter = { id: 'm1', code: 'HANDLER_TIMEOUT', attempts: 2, label: 'never started' }
  expect(await scene.dead()).toMatchObject([letter])
  expect(scene.settled.filter(event => event.outcome === 'done').every(event => event.attempt === 1)).toBe(true)
})

test('a handler that never returns is given up, and what runs behind it is not touched', async () => {
  await using scene = await createScene({
    timeoutMs: 40,
    async handle({ message, tx }) {
      write(tx, message.data.n)
      if (message.data.n === 1) await new Promise(() => {})
    },
  })
  await scene.ichido.transaction(async ({ send }) => {
    for (const n of [0, 1, 2]) await send(order, { n }, { id: `m${n}` })
  })
  await scene.finish()
  expect(await scene.effects()).toEqual([0, 2])
  expect(await scene.dead()).toMatchObject([{ id: 'm1', code: 'TX_AWAITED_OUTSIDE', attempts: 1 }])
})

test('a savepoint that is not awaited is the fault of its handler, and writes nothing', async () => {
  const late: unknown[] = []
  await using scene = await createScene({
    handle({ message, tx }) {
      if (message.data.n > 1) return write(tx, message.data.n)
      const part = tx.savepoint(async () => {
        await Promise.resolve()
        await Promise.resolve()
        write(tx, 90)
      })
      void part.catch(error => late.push((error as { code: string }).code))
    },
  })
  await scene.ichido.transaction(async ({ send }) => {
    for (const n of [1, 2, 3]) await send(order, { n }, { id: `m${n}` })
  })
  await scene.finish()
  await expect.poll(() => late.length).toBeGreaterThan(0)
  expect(await scene.effects()).toEqual([2, 3])
  expect(await scene.dead()).toMatchObject([{ id: 'm1', code: 'TX_STATEMENT_IN_FLIGHT', attempts: 1 }])
})
