import type { ErrorClass } from './outcome.ts'

/**
 * Every code that ichido throws, whether a retry helps, and what to do next. Documented in `docs/errors.md`.
 * The hint is one sentence in the imperative.
 */
export const errorCodes = {
  ID_REUSED: {
    retryable: false,
    hint: 'Give every message its own id; the same id may only be sent again with the same contents.',
  },
  INVALID_MESSAGE: { retryable: false, hint: 'Mend what the message names; nothing was written.' },
  MESSAGE_TOO_LARGE: { retryable: false, hint: 'Send an id and keep the data where the receiver can fetch it.' },
  UNDECODABLE: {
    retryable: false,
    hint: 'Look at the raw bytes with `ichido dead show`, and ask the producer for valid JSON in UTF-8.',
  },
  INVALID_DATA: { retryable: false, hint: 'Mend the producer or the schema, then edit or redrive the dead letter.' },
  NO_UPCAST: { retryable: false, hint: 'Add the missing upcast to the message definition and redrive.' },
  UPCAST_FAILED: { retryable: false, hint: 'Mend the upcast function and redrive.' },
  INVALID_ID: { retryable: false, hint: 'Ask the producer to send a usable message id.' },
  UNPROVABLE: {
    retryable: false,
    hint: 'Check by hand whether the effect happened: this copy is older than what the store remembers.',
  },
  KILLS_PROCESS: {
    retryable: false,
    hint: 'The process died each time this message ran alone; mend the handler, then redrive.',
  },
  NO_CONSUMER: { retryable: false, hint: 'Start a consumer for the topic, or discard the kept message.' },
  HANDLER_TIMEOUT: { retryable: true, hint: 'Move waiting into `prepare`, or raise `timeoutMs`.' },
  LEASE_LOST: { retryable: true, hint: 'Nothing to do: another process has taken the delivery over.' },
  TX_CLOSED: { retryable: false, hint: 'Await every use of `tx` before the handler returns.' },
  TX_STATEMENT_IN_FLIGHT: { retryable: false, hint: 'Await every statement on `tx` before the handler returns.' },
  TX_STATEMENT_FAILED: {
    retryable: true,
    hint: 'Let the error pass, or put the statement that may fail into `tx.savepoint`.',
  },
  TX_CONTROL: {
    retryable: false,
    hint: 'Leave BEGIN, COMMIT, ROLLBACK and SAVEPOINT to ichido; use `tx.savepoint` for a part that may fail.',
  },
  TX_AWAITED_OUTSIDE: {
    retryable: false,
    hint: 'On SQLite `handle` may await nothing but `tx`; do the waiting in `prepare`.',
  },
  TX_FOREIGN: { retryable: false, hint: 'Pass the handle of an open transaction of the same store as `tx`.' },
  FENCED: { retryable: true, hint: 'Nothing to do: another process owns the delivery now.' },
  COMMIT_UNKNOWN: { retryable: true, hint: 'Nothing to do: ichido claims the delivery again and learns how it ended.' },
  STORE_BUSY: {
    retryable: true,
    hint: 'Another process holds the database write lock for long; look for a long transaction.',
  },
  STORE_UNAVAILABLE: {
    retryable: true,
    hint: 'Check that the database is up and reachable; ichido goes on by itself.',
  },
  STORE_FULL: { retryable: true, hint: 'Free space on the disk that holds the database; ichido goes on by itself.' },
  STORE_READ_ONLY: { retryable: true, hint: 'Point ichido at the primary server, or make the file writable.' },
  STORE_CORRUPT: {
    retryable: false,
    hint: 'Stop the workers, restore the database from a backup, and compare the books.',
  },
  STORE_ERROR: { retryable: true, hint: 'Read the cause; ichido tries again.' },
  SQLITE_TOO_OLD: { retryable: false, hint: 'Use a Node.js whose SQLite is 3.51.3 or newer (Node 24.14 and later).' },
  SCHEMA_MISSING: { retryable: false, hint: 'Run `ichido migrate`.' },
  SCHEMA_OUTDATED: { retryable: false, hint: 'Run `ichido migrate`.' },
  SCHEMA_NEWER: {
    retryable: false,
    hint: 'Deploy the newer ichido here: the database has a migration that this version cannot work with.',
  },
  MIGRATION_CHANGED: {
    retryable: false,
    hint: 'A migration that was applied differs from the one in this version; do not edit applied migrations.',
  },
  CONSUMER_CHANGED: { retryable: false, hint: 'Run `ichido migrate --accept` to accept the change of the consumer.' },
  INVALID_CONFIG: { retryable: false, hint: 'Mend every point listed in the message.' },
  NOT_FOUND: { retryable: false, hint: 'Check the id with `ichido trace`.' },
  CONFLICT: { retryable: true, hint: 'Somebody else changed it in the meantime; look again.' },
  CLOSED: { retryable: false, hint: 'Do not use ichido after it was stopped.' },
  TRANSPORT_UNAVAILABLE: {
    retryable: true,
    hint: 'Check that the broker is up and reachable; ichido goes on by itself.',
  },
} as const satisfies Record<string, { retryable: boolean; hint: string }>

export type ErrorCode = keyof typeof errorCodes

const brand = Symbol.for('ichido.error')

interface ErrorDetails {
  readonly cause?: unknown
  readonly hint?: string
  readonly retryable?: boolean
}

/** What ichido throws. Recognise it with `isIchidoError`, which also works across two copies of the package. */
export class IchidoError extends Error {
  readonly code: string
  readonly retryable: boolean
  /** What to do next, one sentence. */
  readonly hint: string

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'IchidoError'
    this.code = code
    this.retryable = details.retryable ?? errorCodes[code].retryable
    this.hint = details.hint ?? errorCodes[code].hint
    Object.defineProperty(this, brand, { value: true })
  }
}

export function isIchidoError(error: unknown, code?: ErrorCode): error is IchidoError {
  if (typeof error !== 'object' || error === null || (error as Record<symbol, unknown>)[brand] !== true) return false
  return code === undefined || (error as { code?: unknown }).code === code
}

const permanentBrand = Symbol.for('ichido.permanent')
const transientBrand = Symbol.for('ichido.transient')

/** Thrown by a handler: trying again cannot help. The message becomes a dead letter at once. */
export class PermanentError extends Error {
  readonly class: ErrorClass
  readonly code: string

  constructor(message: string, details: { class?: ErrorClass; code?: string; cause?: unknown } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'PermanentError'
    this.class = details.class ?? 'business'
    this.code = details.code ?? 'PERMANENT'
    Object.defineProperty(this, permanentBrand, { value: true })
  }
}

/** Thrown by a handler: trying again later may help. */
export class TransientError extends Error {
  /** Tried again no sooner than this, when the other side said so. */
  readonly retryAfterMs: number | undefined
  readonly code: string

  constructor(message: string, details: { retryAfterMs?: number; code?: string; cause?: unknown } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'TransientError'
    this.retryAfterMs = details.retryAfterMs
    this.code = details.code ?? 'TRANSIENT'
    Object.defineProperty(this, transientBrand, { value: true })
  }
}

function branded(error: unknown, symbol: symbol): boolean {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[symbol] === true
}

export function isPermanentError(error: unknown): error is PermanentError {
  return branded(error, permanentBrand)
}

export function isTransientError(error: unknown): error is TransientError {
  return branded(error, transientBrand)
}
