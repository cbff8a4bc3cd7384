import { type ErrorCode, IchidoError, isIchidoError } from '../../contracts/errors.ts'

/** Primary result codes of SQLite that say something about the database rather than about the statement. */
const codes: Readonly<Record<number, ErrorCode>> = {
  5: 'STORE_BUSY',
  6: 'STORE_BUSY',
  8: 'STORE_READ_ONLY',
  10: 'STORE_UNAVAILABLE',
  11: 'STORE_CORRUPT',
  13: 'STORE_FULL',
  14: 'STORE_UNAVAILABLE',
  26: 'STORE_CORRUPT',
}

function resultCode(error: unknown): number | null {
  const code = (error as { errcode?: unknown } | null)?.errcode
  return typeof code === 'number' ? code & 0xff : null
}

export function isBusy(error: unknown): boolean {
  const code = resultCode(error)
  return code === 5 || code === 6
}

/** An error of the database itself, whoever's statement met it; undefined for what the statement is to blame for. */
export function storeFault(error: unknown): IchidoError | undefined {
  const code = resultCode(error)
  const known = code === null ? undefined : codes[code]
  if (!known) return undefined
  return new IchidoError(known, `SQLite: ${(error as Error).message}.`, { cause: error })
}

/** Errors of ichido's own statements. */
export function translate(error: unknown): unknown {
  if (isIchidoError(error) || resultCode(error) === null) return error
  return storeFault(error) ?? new IchidoError('STORE_ERROR', `SQLite: ${(error as Error).message}.`, { cause: error })
}
