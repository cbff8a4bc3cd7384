import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { OutgoingMessage } from '../../src/contracts/message.ts'
import { defineMessage } from '../../src/send/define-message.ts'
import { encodeMessage } from '../../src/send/encode.ts'
import { createUuidFactory } from '../../src/send/uuid.ts'

const anything = defineMessage({ type: 'anything', schema: z.any(), key: (input: { key?: string }) => input?.key })
const encode = (input: unknown, options = {}) => encodeMessage(anything, input, options, () => 'new') as OutgoingMessage

describe('what JSON cannot carry is refused', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  let deep: unknown = 1
  for (let level = 0; level < 65; level++) deep = [deep]
  test.each([
    ['a date', { at: new Date(0) }, 'at is an instance of Date'],
    ['NaN', { n: Number.NaN }, 'n is NaN'],
    ['infinity', [1 / 0], '[0] is Infinity'],
    ['a big integer', { n: 1n }, 'n is a bigint'],
    ['a map', { m: new Map() }, 'm is an instance of Map'],
    ['a function', { f: () => 1 }, 'f is a function'],
    ['a hole', [undefined], '[0] is undefined'],
    ['nothing', undefined, 'the value is undefined'],
    ['a circle', cycle, 'nested deeper than 64'],
    ['65 levels', deep, 'nested deeper than 64'],
    ['toJSON', { toJSON: () => 1 }, 'is a function'],
  ])('%s', (_, input, text) => {
    expect(() => encode(input)).toThrow(
      expect.objectContaining({ code: 'INVALID_MESSAGE', message: expect.stringContaining(text) }),
    )
  })

  test('everything else arrives equal', () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        expect(JSON.parse(Buffer.from(encode(value).body).toString())).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })
})

describe('limits', () => {
  test.each([
    ['a body of 256 KiB and a byte', 'x'.repeat(256 * 1024 - 1), {}, 'MESSAGE_TOO_LARGE'],
    ['an empty id', 1, { id: '' }, 'INVALID_MESSAGE'],
    ['an id of 256 bytes', 1, { id: 'é'.repeat(128) }, 'INVALID_MESSAGE'],
    ['an id with a line break', 1, { id: 'a\nb' }, 'INVALID_MESSAGE'],
    ['an id with half a surrogate pair', 1, { id: 'a\ud800' }, 'INVALID_MESSAGE'],
    ['a key with U+0000', 1, { key: '\u0000' }, 'INVALID_MESSAGE'],
    [
      '65 headers',
      1,
      { headers: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`h${n}`, ''])) },
      'INVALID_MESSAGE',
    ],
    ['16 KiB of headers', 1, { headers: { h: 'x'.repeat(16 * 1024) } }, 'MESSAGE_TOO_LARGE'],
    ['a header that is no text', 1, { headers: { h: 1 } }, 'INVALID_MESSAGE'],
    ['at and delayMs', 1, { at: new Date(), delayMs: 1 }, 'INVALID_MESSAGE'],
    ['a negative delay', 1, { delayMs: -1 }, 'INVALID_MESSAGE'],
    ['an invalid date', 1, { at: new Date('x') }, 'INVALID_MESSAGE'],
    ['itself as what it replaces', 1, { id: 'a', replaces: 'a' }, 'INVALID_MESSAGE'],
  ])('%s', (_, input, options, code) => {
    expect(() => encode(input, options)).toThrow(expect.objectContaining({ code }))
  })

  test('are reached without error', () => {
    const message = encode('x'.repeat(256 * 1024 - 2), { id: 'é'.repeat(127), key: 'k'.repeat(255) })
    expect(message.body).toHaveLength(256 * 1024)
  })
})

test('the hash covers type, version, key and body, and not the headers', () => {
  const hash = (input: unknown, options = {}) => Buffer.from(encode(input, options).hash).toString('hex')
  expect(hash({ a: 1 })).toBe(hash({ a: 1 }, { id: 'other', headers: { h: '1' } }))
  expect(
    new Set([hash({ a: 1 }), hash({ a: 2 }), hash({ a: 1 }, { key: 'k' }), hash({ a: 1 }, { key: 'l' })]).size,
  ).toBe(4)
})

test('new ids are UUIDv7, rise within a millisecond, and never go back with the clock', () => {
  let now = 1_000
  const next = createUuidFactory(() => now)
  const ids = [next(), ...Array.from({ length: 5_000 }, next)]
  now = 500
  ids.push(next())
  expect([...ids].sort()).toEqual(ids)
  expect(new Set(ids).size).toBe(ids.length)
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

test('an unusable definition is refused with every fault', () => {
  const define = () =>
    defineMessage({ type: 'Order Placed', version: 0, schema: {} as never, upcast: { 3: body => body } })
  expect(define).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }))
  expect(define).toThrow(/type .* version 0 .*schema .*upcast 3/s)
})
