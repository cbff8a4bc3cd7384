import { isIchidoError, isPermanentError, isTransientError } from '../contracts/errors.ts'
import type { ErrorClass } from '../contracts/outcome.ts'
import { readSafely } from './stored-error.ts'

/** What a failure means for the message that met it. */
export interface Classification {
  readonly kind: 'permanent' | 'transient'
  readonly class: ErrorClass
  readonly code: string
  /** No sooner than this, when the other side said so. */
  readonly retryAfterMs?: number | undefined
}

/** A user's own rules; undefined means: go on with the defaults. */
export type Classifier = (error: unknown) => Classification | undefined

const permanent = (errorClass: ErrorClass, code: string): Classification => ({
  kind: 'permanent',
  class: errorClass,
  code,
})
const transient = (code: string, retryAfterMs?: number): Classification => ({
  kind: 'transient',
  class: 'system',
  code,
  retryAfterMs,
})

/** Sorts a thrown value. Unknown errors are transient. A classifier that throws is passed over. */
export function classify(error: unknown, custom?: Classifier): Classification {
  if (custom) {
    try {
      const own = custom(error)
      if (own) return own
    } catch {
      // The user's rule is broken; the defaults still hold, and the message is not to blame.
    }
  }
  return byBrand(error) ?? bySqlite(error) ?? bySqlState(error) ?? byHttp(error) ?? bySchema(error) ?? byCode(error)
}

function byBrand(error: unknown): Classification | null {
  if (isPermanentError(error)) return permanent(error.class, error.code)
  if (isTransientError(error)) return transient(error.code, error.retryAfterMs)
  if (!isIchidoError(error)) return null
  if (error.retryable) return transient(error.code)
  const format = error.code === 'INVALID_MESSAGE' || error.code === 'MESSAGE_TOO_LARGE' || error.code === 'ID_REUSED'
  return permanent(format ? 'business' : 'system', error.code)
}

/** Extended result codes of SQLite constraints that no retry can heal: CHECK, NOT NULL, and a wrong type for the column. */
const hopelessSqlite = new Map([
  [275, 'SQLITE_CONSTRAINT_CHECK'],
  [1299, 'SQLITE_CONSTRAINT_NOTNULL'],
  [3091, 'SQLITE_CONSTRAINT_DATATYPE'],
])

function bySqlite(error: unknown): Classification | null {
  if (readSafely(error, 'code') !== 'ERR_SQLITE_ERROR') return null
  const number = readSafely(error, 'errcode')
  const hopeless = typeof number === 'number' ? hopelessSqlite.get(number) : undefined
  return hopeless ? permanent('business', hopeless) : transient(`SQLITE_${String(number)}`)
}

/** SQLSTATE classes and codes that no retry can heal: data exceptions, and rows that a NOT NULL or CHECK refuses. */
function bySqlState(error: unknown): Classification | null {
  const code = readSafely(error, 'code')
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || typeof readSafely(error, 'severity') !== 'string')
    return null
  if (code.startsWith('22')) return permanent('format', code)
  return code === '23502' || code === '23514' ? permanent('business', code) : transient(code)
}

const retryableStatus = new Set([401, 403, 404, 407, 408, 409, 423, 425, 429])

/**
 * HTTP answers. Credentials that expired, a resource that is not there yet, a conflict and a rate limit may all be over later; the other
 * answers of the 4xx group say that the request itself is wrong.
 */
function byHttp(error: unknown): Classification | null {
  const status =
    readSafely(error, 'status') ??
    readSafely(error, 'statusCode') ??
    readSafely(readSafely(error, 'response'), 'status')
  if (typeof status !== 'number' || status < 400 || status > 599) return null
  const code = `HTTP_${status}`
  return status >= 500 || retryableStatus.has(status) ? transient(code) : permanent('business', code)
}

function bySchema(error: unknown): Classification | null {
  const name = readSafely(error, 'name')
  const issues = readSafely(error, 'issues')
  const isSchema =
    Array.isArray(issues) &&
    (name === 'ZodError' || name === '$ZodError' || name === 'ValiError' || name === 'SchemaError')
  return isSchema ? permanent('format', 'SCHEMA') : null
}

function byCode(error: unknown): Classification {
  const code = readSafely(error, 'code') ?? readSafely(readSafely(error, 'cause'), 'code')
  if (typeof code === 'string' && code !== '') return transient(code)
  const name = readSafely(error, 'name')
  return transient(typeof name === 'string' && name !== '' ? name : 'ERROR')
}
