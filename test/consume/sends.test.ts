import { describe, expect, test } from 'vitest'
import { createScene, order, write } from './scene.ts'

const failInside = async () => {
  throw new Error('the part failed')
}

describe('a send in a savepoint of the handler', () => {
  test('vanishes with the part that failed; what was sent before and after stays', async () => {
    await using scene = await createScene({
      async handle({ message, tx, send }) {
        const { n } = message.data
        write(tx, n)
        if (n >= 10) return
        await send(order, { n: 10 + n })
        const part = tx.savepoint(async () => {
          write(tx, 90 + n)
          await send(order, { n: 20 + n })
          await tx.savepoint(async () => void (await send(order, { n: 30 + n })))
          await failInside()
        })
        await part.catch(() => {})
        await tx.savepoint(async () => void (await send(order, { n: 40 + n })))
        await send(order, { n: 50 + n })
      },
    })
    for (const n of [1, 2]) await scene.ichido.send(order, { n })
    await scene.finish()
    expect((await scene.effects()).sort((a, b) => a - b)).toEqual([1, 2, 11, 12, 41, 42, 51, 52])
  })

  test('also when the handler runs in isolation because a neighbour fails', async () => {
    await using scene = await createScene({
      async handle({ message, tx, send, attempt }) {
        const { n } = message.data
        write(tx, n)
        if (n === 2 && attempt === 1) throw new Error('once')
        if (n >= 10) return
        const part = tx.savepoint(async () => {
          await send(order, { n: 20 + n })
          await failInside()
        })
        await part.catch(() => {})
        await send(order, { n: 50 + n })
      },
    })
    await scene.ichido.transaction(async ({ send }) => {
      for (const n of [1, 2, 3]) await send(order, { n })
    })
    await scene.finish()
    expect((await scene.effects()).sort((a, b) => a - b)).toEqual([1, 2, 3, 51, 52, 53])
  })
})
