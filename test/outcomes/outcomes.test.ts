import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IchidoError, PermanentError, TransientError } from '../../src/contracts/errors.ts'
import { backoffMs, longestRetryMs } from '../../src/outcomes/backoff.ts'
import { classify } from '../../src/outcomes/classify.ts'
import { decide } from '../../src/outcomes/decide.ts'
import { safeText, toStoredError } from '../../src/outcomes/stored-error.ts'

const with_ = (properties: object) => Object.assign(new Error('x'), properties)

describe('classify', () => {
  test.each([
    ['a permanent error', new PermanentError('x', { class: 'format', code: 'BAD' }), 'permanent', 'format', 'BAD'],
    ['a transient error', new TransientError('x', { code: 'BUSY' }), 'transient', 'system', 'BUSY'],
    ['an unknown error', new Error('x'), 'transient', 'system', 'Error'],
    ['a lost connection', with_({ code: 'ECONNRESET' }), 'transient', 'system', 'ECONNRESET'],
    [
      'a lost connection as the cause',
      new Error('x', { cause: with_({ code: 'ECONNREFUSED' }) }),
      'transient',
      'system',
      'ECONNREFUSED',
    ],
    ['HTTP 503', with_({ status: 503 }), 'transient', 'system', 'HTTP_503'],
    ['HTTP 429', with_({ response: { status: 429 } }), 'transient', 'system', 'HTTP_429'],
    ['HTTP 400', with_({ statusCode: 400 }), 'permanent', 'business', 'HTTP_400'],
    ['a deadlock', with_({ code: '40P01', severity: 'ERROR' }), 'transient', 'system', '40P01'],
    ['a value of the wrong form', with_({ code: '22P02', severity: 'ERROR' }), 'permanent', 'format', '22P02'],
    ['a missing value', with_({ code: '23502', severity: 'ERROR' }), 'permanent', 'business', '23502'],
    ['a foreign key that may come later', with_({ code: '23503', severity: 'ERROR' }), 'transient', 'system', '23503'],
    [
      'a CHECK of SQLite',
      with_({ code: 'ERR_SQLITE_ERROR', errcode: 275 }),
      'permanent',
      'business',
      'SQLITE_CONSTRAINT_CHECK',
    ],
    ['a busy SQLite', with_({ code: 'ERR_SQLITE_ERROR', errcode: 5 }), 'transient', 'system', 'SQLITE_5'],
    ['a schema', with_({ name: 'ZodError', issues: [] }), 'permanent', 'format', 'SCHEMA'],
    ['misuse of tx', new IchidoError('TX_CONTROL', 'x'), 'permanent', 'system', 'TX_CONTROL'],
    ['a timeout', new IchidoError('HANDLER_TIMEOUT', 'x'), 'transient', 'system', 'HANDLER_TIMEOUT'],
  ])('%s', (_, error, kind, errorClass, code) => {
    expect(classify(error)).toMatchObject({ kind, class: errorClass, code })
  })

  test('own rules come first, and a broken one is passed over', () => {
    const own = () => ({ kind: 'permanent' as const, class: 'business' as const, code: 'OWN' })
    expect(classify(new Error('x'), own).code).toBe('OWN')
    const broken = () => {
      throw new Error('broken rule')
    }
    expect(classify(new TransientError('x'), broken).code).toBe('TRANSIENT')
  })

  test('never throws, whatever was thrown', () => {
    fc.assert(fc.property(fc.anything(), thrown => void classify(thrown)))
  })
})

describe('retries', () => {
  const retry = { maxAttempts: 20, baseMs: 1_000, capMs: 600_000 }

  test('stay between 1 ms and the ceiling, which doubles up to the cap', () => {
    const attempts = fc.integer({ min: 1, max: 60 })
    fc.assert(
      fc.property(attempts, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (attempt, random) => {
        const ms = backoffMs(retry, attempt, random)
        expect(ms).toBeGreaterThanOrEqual(1)
        expect(ms).toBeLessThanOrEqual(Math.min(600_000, 1_000 * 2 ** (attempt - 1)))
      }),
    )
  })

  test('take at most 1 h 47 min in all with the defaults', () => {
    expect(longestRetryMs(retry) / 60_000).toBeGreaterThan(106)
    expect(longestRetryMs(retry) / 60_000).toBeLessThan(108)
  })

  test('end with the last attempt, and wait at least as long as the other side asked', () => {
    const policy = { retry, onDead: 'block' as const, random: () => 0 }
    expect(decide(policy, new Error('x'), 19)).toMatchObject({ to: 'retry', exhausted: false })
    expect(decide(policy, new Error('x'), 20)).toMatchObject({ to: 'dead', exhausted: true })
    expect(decide(policy, new PermanentError('x'), 1)).toMatchObject({ to: 'dead', exhausted: false })
    expect(decide(policy, new TransientError('x', { retryAfterMs: 5_000 }), 1).delayMs).toBe(5_000)
  })
})

test('any text can be stored: well formed, without U+0000, within its bytes, cut between characters', () => {
  const text = fc
    .array(fc.oneof(fc.string({ unit: 'binary' }), fc.constant('\u0000'), fc.constant('\ud83d'), fc.constant('😀é')))
    .map(parts => parts.join(''))
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 200 }), (given, bytes) => {
      const safe = safeText(given, bytes)
      expect(Buffer.byteLength(safe)).toBeLessThanOrEqual(bytes)
      expect(safe.isWellFormed()).toBe(true)
      expect(safe).not.toContain('\u0000')
      expect(given.toWellFormed().replaceAll('\u0000', '\ufffd').startsWith(safe)).toBe(true)
    }),
  )
  fc.assert(fc.property(fc.anything(), thrown => void toStoredError(thrown, 'system', 'X')))
})
