import { expect, test } from 'vitest'
import { createScene, order, write } from './scene.ts'

// The user's own writers of a process that also consumes.

test('a transaction that waits for a send of its own is rolled back, and nobody waits for it', async () => {
  await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
  const waiting = scene.ichido.transaction(async ({ tx }) => {
    write(tx, 7)
    await scene.ichido.send(order, { n: 1 })
  })
  await expect(waiting).rejects.toMatchObject({ code: 'TX_AWAITED_OUTSIDE' })
  await scene.ichido.send(order, { n: 2 })
  await scene.finish()
  expect(await scene.effects()).toEqual([1, 2])
}, 5_000)

test('a transaction that never ends does not stop the others', async () => {
  await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
  const endless = scene.ichido.transaction(() => new Promise(() => {}))
  await expect(endless).rejects.toMatchObject({ code: 'TX_AWAITED_OUTSIDE' })
  await scene.ichido.send(order, { n: 1 })
  await scene.finish()
  expect(await scene.effects()).toEqual([1])
}, 5_000)

test('what a transaction sends and writes is committed together or not at all', async () => {
  await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
  await scene.ichido.transaction(async ({ tx, send }) => {
    write(tx, 10)
    await send(order, { n: 1 })
    await scene.ichido.send(order, { n: 2 }, { tx })
  })
  const failing = scene.ichido.transaction(async ({ tx, send }) => {
    write(tx, 20)
    await send(order, { n: 3 })
    throw new Error('no')
  })
  await expect(failing).rejects.toThrow('no')
  await scene.finish()
  expect(await scene.effects()).toEqual([10, 1, 2])
})

test('a transaction that was given up sends nothing later', async () => {
  await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
  const codes: string[] = []
  const late = Promise.withResolvers<void>()
  const given = scene.ichido.transaction(async ({ tx, send }) => {
    await new Promise(resolve => setTimeout(resolve, 20))
    await send(order, { n: 1 }).catch(error => codes.push(error.code))
    try {
      write(tx, 2)
    } catch (error) {
      codes.push((error as { code: string }).code)
    }
    late.resolve()
  })
  await expect(given).rejects.toMatchObject({ code: 'TX_AWAITED_OUTSIDE' })
  await late.promise
  expect(codes).toEqual(['TX_CLOSED', 'TX_CLOSED'])
  await scene.finish()
  expect(await scene.effects()).toEqual([])
})

test('a send with a tx that is over, or of another store, is refused', async () => {
  await using scene = await createScene({ handle: ({ message, tx }) => write(tx, message.data.n) })
  await using other = await createScene({ handle() {} })
  const left = await scene.ichido.transaction(({ tx }) => tx)
  const codeOf = (work: Promise<unknown>) =>
    work.then(
      () => 'sent',
      error => error.code,
    )
  await scene.ichido.transaction(async () => {
    expect(await codeOf(scene.ichido.send(order, { n: 1 }, { tx: left }))).toBe('TX_CLOSED')
  })
  await scene.ichido.transaction(({ tx }) =>
    other.ichido.transaction(async () => {
      expect(await codeOf(other.ichido.send(order, { n: 2 }, { tx }))).toBe('TX_FOREIGN')
    }),
  )
  expect(await codeOf(scene.ichido.send(order, { n: 3 }, { tx: {} as never }))).toBe('TX_FOREIGN')
  await scene.finish()
  expect(await scene.effects()).toEqual([])
})
