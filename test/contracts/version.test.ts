import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sortableVersion } from '../../src/contracts/version.ts'

const bytewise = (a: string, b: string) => Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b)))
const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.constantFrom(0, -0, 1, -1, Number.MIN_VALUE, -Number.MIN_VALUE, Number.MAX_VALUE, -Number.MAX_VALUE, 2 ** 53),
)

test('numbers order by size as texts, negative ones, zeros and the smallest included', () => {
  fc.assert(
    fc.property(number, number, (a, b) => {
      expect(bytewise(sortableVersion(a), sortableVersion(b))).toBe(a < b ? -1 : a > b ? 1 : 0)
    }),
    { numRuns: 2_000 },
  )
})

test('texts order by their bytes, and are never equal to a number', () => {
  const text = fc.string({ unit: 'grapheme' })
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(bytewise(sortableVersion(a), sortableVersion(b))).toBe(bytewise(a, b))
    }),
  )
  fc.assert(fc.property(text, number, (a, b) => void expect(sortableVersion(a)).not.toBe(sortableVersion(b))))
})

test.each([Number.NaN, Infinity, -Infinity])('%s cannot be compared', version => {
  expect(() => sortableVersion(version)).toThrow(expect.objectContaining({ code: 'INVALID_MESSAGE' }))
})
