import { limits } from '../contracts/limits.ts'
import type { ErrorClass, StoredError } from '../contracts/outcome.ts'

const MESSAGE_BYTES = 2 * 1024
const CODE_BYTES = 100
const encoder = new TextEncoder()

/** Cuts a text to a number of bytes of UTF-8, on a character's boundary, and takes out what a database's text type refuses. */
export function safeText(text: string, maxBytes: number): string {
  const clean = text.slice(0, maxBytes).toWellFormed().replaceAll('\u0000', '\ufffd')
  const { read } = encoder.encodeInto(clean, new Uint8Array(maxBytes))
  return read === clean.length ? clean : clean.slice(0, read)
}

/** Reads a property of something that may throw, be a proxy, or be no object at all. */
export function readSafely(value: unknown, name: string): unknown {
  try {
    return (typeof value === 'object' && value !== null) || typeof value === 'function'
      ? (value as Record<string, unknown>)[name]
      : undefined
  } catch {
    return undefined
  }
}

function textOf(error: unknown): string {
  const message = readSafely(error, 'message')
  if (typeof message === 'string') return message
  try {
    return `thrown: ${typeof error === 'object' && error !== null ? Object.prototype.toString.call(error) : String(error)}`
  } catch {
    return 'thrown: a value that cannot be shown'
  }
}

/** Whatever was thrown, as it can be stored: the failure path must not fail. */
export function toStoredError(error: unknown, errorClass: ErrorClass, code: string): StoredError {
  const message = safeText(textOf(error), MESSAGE_BYTES)
  const stack = readSafely(error, 'stack')
  return {
    class: errorClass,
    code: safeText(code, CODE_BYTES) || 'ERROR',
    message,
    stack: typeof stack === 'string' ? safeText(stack, limits.storedErrorBytes - MESSAGE_BYTES - CODE_BYTES) : null,
  }
}
