import { expect, test } from 'vitest'
import { z } from 'zod'
import { defineConsumer, defineIchido, defineMessage } from '../../src/index.ts'
import { memory } from '../../src/stores/memory.ts'

const store = memory()
const order = defineMessage({ type: 'order', schema: z.any() })
const handle = () => {}

function faultsOf(options: object): string {
  try {
    defineIchido({ store, ...options } as never)
    return ''
  } catch (error) {
    expect(error).toMatchObject({ code: 'INVALID_CONFIG' })
    return (error as Error).message
  }
}

test('every fault is told at once', () => {
  const first = defineConsumer({
    store,
    name: 'Bad Name',
    messages: [],
    timeoutMs: 90_000,
    batch: 0,
    concurrency: 8,
    handle,
  })
  const text = faultsOf({ consumers: [first], retentionms: 1, leaseMs: 1_000, beatMs: 500 })
  for (const part of ['Bad Name', 'lists no messages', 'timeoutMs 90000', 'batch 0', 'concurrency 8']) {
    expect(text).toContain(part)
  }
  expect(text).toContain('unknown option "retentionms" (did you mean "retentionMs"?)')
  expect(text).toContain('leaseMs 1000 must be at least three times beatMs 500')
})

test.each([
  ['two consumers of one name', [{}, {}], 'two consumers are called "c"'],
  ['a cap that is never reached', [{ retry: { maxAttempts: 3, baseMs: 10, capMs: 1_000 } }], 'is never reached'],
  [
    'a type listed twice',
    [{ messages: [order, defineMessage({ type: 'order', version: 2, schema: z.any() })] }],
    'lists the type order twice',
  ],
  ['another store', [{ store: memory() }], 'its store differs'],
])('%s is refused', (_, consumers, text) => {
  const list = consumers.map(options =>
    defineConsumer({ store, name: 'c', messages: [order], handle, ...options } as never),
  )
  expect(faultsOf({ consumers: list })).toContain(text)
})

test('a good configuration knows its messages', () => {
  const consumer = defineConsumer({ store, name: 'c', messages: [order], handle })
  const other = defineMessage({ type: 'other', schema: z.any() })
  expect(defineIchido({ store, consumers: [consumer], messages: [other, order] }).messages).toEqual([other, order])
})
