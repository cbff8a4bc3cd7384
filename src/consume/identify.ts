import { hash as digest } from 'node:crypto'
import type { Identified } from '../contracts/deliveries.ts'
import { IchidoError } from '../contracts/errors.ts'
import { limits } from '../contracts/limits.ts'
import type { StoredError } from '../contracts/outcome.ts'
import type { Copy } from '../contracts/transport.ts'
import { toStoredError } from '../outcomes/stored-error.ts'

export interface Identify {
  readonly hash: (type: string, version: number, key: string | null, body: Uint8Array) => Uint8Array
  /** Says what is wrong with an id or a key, or null. */
  readonly findBadName: (what: 'id' | 'key', value: unknown) => string | null
}

export interface Unreadable {
  readonly copy: Copy
  readonly rawId: string
  readonly error: StoredError
}

/**
 * Reads who a copy is from its headers, before its body is touched. Without a usable identity it is stored with its raw bytes, under the
 * hash of headers and bytes: never under a hash of the body alone, since two equal orders are two orders.
 */
export function identify(copies: readonly Copy[], how: Identify) {
  const pieces: Array<{ copy: Copy; identified: Identified }> = []
  const unreadable: Unreadable[] = []
  for (const copy of copies) {
    const fault = faultOf(copy, how)
    if (!fault) pieces.push({ copy, identified: identified(copy, how) })
    else {
      const rawId = `raw~${digest('sha256', Buffer.concat([Buffer.from(JSON.stringify([copy.id, copy.key, copy.headers])), copy.body]))}`
      unreadable.push({ copy, rawId, error: { ...toStoredError(fault, 'format', fault.code), stack: null } })
    }
  }
  return { pieces, unreadable }
}

function faultOf(copy: Copy, how: Identify): IchidoError | null {
  const badId = how.findBadName('id', copy.id)
  if (badId) return new IchidoError('INVALID_ID', `The copy has no usable id: ${badId}.`)
  const badKey = copy.key === null ? null : how.findBadName('key', copy.key)
  if (badKey) return new IchidoError('INVALID_ID', `The copy ${copy.id} has no usable key: ${badKey}.`)
  if (copy.body.length > limits.bodyBytes) {
    return new IchidoError(
      'MESSAGE_TOO_LARGE',
      `The copy ${copy.id} has ${copy.body.length} bytes, the limit is ${limits.bodyBytes}.`,
    )
  }
  const names = Object.keys(copy.headers)
  const bytes = Buffer.byteLength(JSON.stringify(copy.headers))
  if (names.length > limits.headerCount || bytes > limits.headerBytes) {
    const text = `${names.length} headers with ${bytes} bytes; the limits are ${limits.headerCount} and ${limits.headerBytes}`
    return new IchidoError('MESSAGE_TOO_LARGE', `The copy ${copy.id} has ${text}.`)
  }
  return null
}

function identified(copy: Copy, how: Identify): Identified {
  const { topic, key, headers, sentAt, dueAt, body } = copy
  const type = copy.type ?? topic
  const version = copy.version ?? 1
  const hash = how.hash(type, version, key, body)
  return {
    id: copy.id as string,
    topic,
    type,
    version,
    key,
    headers,
    headersText: JSON.stringify(headers),
    sentAt,
    dueAt,
    body,
    hash,
  }
}
