import { isIchidoError } from '../contracts/errors.ts'
import { readSafely } from '../outcomes/stored-error.ts'

/** Deadlock, serialization failure, lock timeout: the company of a message caused them, not the message. */
const batchAborts = new Set(['40P01', '40001', '55P03'])

export function isBatchAbort(error: unknown): boolean {
  const code = readSafely(error, 'code')
  const inner = readSafely(readSafely(error, 'cause'), 'code')
  return (typeof code === 'string' && batchAborts.has(code)) || (typeof inner === 'string' && batchAborts.has(inner))
}

const storeDown = new Set(['STORE_BUSY', 'STORE_UNAVAILABLE', 'STORE_FULL', 'STORE_READ_ONLY'])

/** The store itself fails: no message is to blame, and nothing can be recorded until it is back. */
export function isStoreDown(error: unknown): boolean {
  return isIchidoError(error) && storeDown.has(error.code)
}
