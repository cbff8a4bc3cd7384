import { IchidoError } from '../contracts/errors.ts'
import { limits } from '../contracts/limits.ts'
import type { Headers, OutgoingMessage, SendOptions } from '../contracts/message.ts'
import type { AnyMessageDefinition, SchemaResult } from '../contracts/schema.ts'
import { findBadName, hashContents } from './identity.ts'
import { findUnjsonable } from './json.ts'

const noHeaders = '{}'

/**
 * Validates the input and makes the bytes that are stored. Answers at once unless the schema is asynchronous. Throws INVALID_MESSAGE and
 * MESSAGE_TOO_LARGE, before anything is written.
 */
export function encodeMessage(
  definition: AnyMessageDefinition,
  input: unknown,
  options: SendOptions,
  newId: () => string,
): OutgoingMessage | Promise<OutgoingMessage> {
  let result: SchemaResult<unknown> | Promise<SchemaResult<unknown>>
  try {
    result = definition.schema['~standard'].validate(input)
  } catch (cause) {
    throw new IchidoError('INVALID_MESSAGE', `The schema of ${definition.type} threw while it checked the message.`, {
      cause,
    })
  }
  if (result instanceof Promise) {
    return result.then(checked => finish(definition, input, checked, options, newId))
  }
  return finish(definition, input, result, options, newId)
}

function finish(
  definition: AnyMessageDefinition,
  input: unknown,
  result: SchemaResult<unknown>,
  options: SendOptions,
  newId: () => string,
): OutgoingMessage {
  const { type, version, topic } = definition
  if (result.issues) throw invalid(type, describeIssues(result.issues))
  const unjsonable = findUnjsonable(input)
  if (unjsonable) throw invalid(type, `JSON cannot carry it: ${unjsonable}`)
  const json = JSON.stringify(input)
  const body = Buffer.from(json)
  if (body.length > limits.bodyBytes) {
    throw new IchidoError('MESSAGE_TOO_LARGE', `${type} has ${body.length} bytes, the limit is ${limits.bodyBytes}.`)
  }
  const key = keyOf(definition, input, options)
  const id = options.id ?? newId()
  const fault = options.id === undefined ? null : findBadName('id', id)
  if (fault) throw invalid(type, fault)
  if (options.replaces !== undefined) {
    const badName = findBadName('id', options.replaces)
    if (badName) throw invalid(type, `replaces: ${badName}`)
    if (options.replaces === id) throw invalid(type, 'a message cannot replace itself')
  }
  return {
    id,
    topic,
    type,
    version,
    key,
    headers: options.headers === undefined ? noHeaders : encodeHeaders(type, options.headers),
    body,
    hash: hashContents(type, version, key, json),
    sentAt: null,
    dueAt: dueAt(type, options),
    delayMs: options.at === undefined && options.delayMs !== undefined && options.delayMs > 0 ? options.delayMs : null,
    replaces: options.replaces ?? null,
  }
}

function keyOf(definition: AnyMessageDefinition, input: unknown, options: SendOptions): string | null {
  let key: string | null
  try {
    key = (options.key === undefined ? definition.key?.(input) : options.key) ?? null
  } catch (cause) {
    throw new IchidoError('INVALID_MESSAGE', `The key function of ${definition.type} threw; nothing was written.`, {
      cause,
    })
  }
  if (key === null) return null
  const fault = findBadName('key', key)
  if (fault) throw invalid(definition.type, fault)
  return key
}

function dueAt(type: string, options: SendOptions): number | null {
  if (options.delayMs !== undefined) {
    if (options.at !== undefined) throw invalid(type, 'give either at or delayMs')
    if (!Number.isFinite(options.delayMs) || options.delayMs < 0)
      throw invalid(type, `delayMs ${options.delayMs} must be 0 or more`)
  }
  if (options.at === undefined) return null
  const time = options.at instanceof Date ? options.at.getTime() : Number.NaN
  if (Number.isNaN(time)) throw invalid(type, 'at must be a valid Date')
  return time
}

/** Headers as JSON text: it escapes whatever a database's text type might refuse. */
function encodeHeaders(type: string, headers: Headers): string {
  const pairs = Object.entries(headers)
  if (pairs.length > limits.headerCount)
    throw invalid(type, `${pairs.length} headers, the limit is ${limits.headerCount}`)
  for (const [name, value] of pairs) {
    if (typeof value !== 'string') throw invalid(type, `header ${JSON.stringify(name)} must be a string`)
  }
  const text = JSON.stringify(Object.fromEntries(pairs))
  const bytes = Buffer.byteLength(text)
  if (bytes > limits.headerBytes) {
    throw new IchidoError(
      'MESSAGE_TOO_LARGE',
      `The headers of ${type} have ${bytes} bytes, the limit is ${limits.headerBytes}.`,
    )
  }
  return text
}

function describeIssues(
  issues: ReadonlyArray<{ readonly message: string; readonly path?: ReadonlyArray<unknown> | undefined }>,
): string {
  return issues
    .slice(0, 5)
    .map(issue => {
      const path = (issue.path ?? []).map(step =>
        String(typeof step === 'object' && step !== null ? (step as { key: unknown }).key : step),
      )
      return path.length > 0 ? `${path.join('.')}: ${issue.message}` : issue.message
    })
    .join('; ')
}

function invalid(type: string, what: string): IchidoError {
  return new IchidoError('INVALID_MESSAGE', `${type} was not sent: ${what}.`)
}
