import { hash } from 'node:crypto'
import { limits } from '../contracts/limits.ts'

/**
 * The 16 bytes that tell whether the same id came with the same contents: the beginning of SHA-256 over type, version, key and body.
 * Line breaks separate them; none of the first three can hold one.
 */
export function hashContents(type: string, version: number, key: string | null, body: string | Uint8Array): Uint8Array {
  const head = `${type}\n${version}\n${key === null ? '-' : `+${key}`}\n`
  const input = typeof body === 'string' ? head + body : Buffer.concat([Buffer.from(head), body])
  return hash('sha256', input, 'buffer').subarray(0, 16)
}

const control = /[\u0000-\u001f\u007f-\u009f]/

/** Says what is wrong with an id or a key, or null. */
export function findBadName(what: 'id' | 'key', value: unknown): string | null {
  if (typeof value !== 'string') return `${what} must be a string`
  if (value.length === 0) return `${what} must not be empty`
  if (value.length > limits.idBytes || Buffer.byteLength(value) > limits.idBytes) {
    return `${what} is longer than ${limits.idBytes} bytes of UTF-8`
  }
  if (control.test(value)) return `${what} holds a control character`
  return value.isWellFormed() ? null : `${what} holds half of a surrogate pair`
}
