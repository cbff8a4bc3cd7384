import { IchidoError } from '../contracts/errors.ts'
import { limits } from '../contracts/limits.ts'
import type { Headers, Message } from '../contracts/message.ts'
import type { StoredError } from '../contracts/outcome.ts'
import type { AnyMessageDefinition, SchemaIssue, SchemaResult } from '../contracts/schema.ts'
import { toStoredError } from '../outcomes/stored-error.ts'
import type { Subject } from './running.ts'

/** What step two makes of the bytes. `newer`: known type, unknown newer version. `ignored`: a type that the consumer did not ask for. */
export type Parsed =
  | { readonly kind: 'message'; readonly message: Message }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'newer' }
  | { readonly kind: 'dead'; readonly error: StoredError }

const ignored: Parsed = { kind: 'ignored' }
const newer: Parsed = { kind: 'newer' }
// `ignoreBOM` means that a byte order mark is not swallowed: JSON does not begin with one.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Decodes, upcasts and validates. Never throws; answers at once unless the schema is asynchronous. */
export function parse(
  definitions: ReadonlyMap<string, AnyMessageDefinition>,
  subject: Subject,
): Parsed | Promise<Parsed> {
  const definition = definitions.get(subject.type)
  if (!definition) return ignored
  if (subject.version > definition.version) return newer
  let data: unknown
  try {
    data = decode(subject.body)
  } catch (error) {
    return dead(
      error instanceof IchidoError
        ? error
        : new IchidoError('UNDECODABLE', `The body is not JSON in UTF-8: ${reason(error)}`),
    )
  }
  try {
    data = upcast(definition, subject.version, data)
    const result = definition.schema['~standard'].validate(data)
    if (!(result instanceof Promise)) return accept(definition, subject, result)
    return result.then(
      checked => accept(definition, subject, checked),
      error => dead(new IchidoError('INVALID_DATA', `The schema of ${definition.type} failed: ${reason(error)}`)),
    )
  } catch (error) {
    if (error instanceof IchidoError) return dead(error)
    return dead(new IchidoError('INVALID_DATA', `The schema of ${definition.type} threw: ${reason(error)}`))
  }
}

function decode(body: Uint8Array): unknown {
  const text = utf8.decode(body)
  if (body.length > limits.jsonDepth && isTooDeep(text)) {
    throw new IchidoError('UNDECODABLE', `The body is nested deeper than ${limits.jsonDepth} levels.`)
  }
  return JSON.parse(text)
}

const QUOTE = 34
const BACKSLASH = 92

/** Counts brackets outside strings, before anything recursive touches the value. */
function isTooDeep(text: string): boolean {
  let depth = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (inString) {
      if (unit === BACKSLASH) at++
      else if (unit === QUOTE) inString = false
    } else if (unit === QUOTE) inString = true
    else if (unit === 91 || unit === 123) {
      if (++depth > limits.jsonDepth) return true
    } else if (unit === 93 || unit === 125) depth--
  }
  return false
}

function upcast(definition: AnyMessageDefinition, version: number, data: unknown): unknown {
  let current = data
  for (let from = version; from < definition.version; from++) {
    const step = definition.upcast[from]
    if (!step) {
      const text = `${definition.type} version ${version} cannot be brought to version ${definition.version}: no upcast from ${from}.`
      throw new IchidoError('NO_UPCAST', text)
    }
    try {
      current = step(current as never)
    } catch (error) {
      throw new IchidoError(
        'UPCAST_FAILED',
        `The upcast of ${definition.type} from version ${from} threw: ${reason(error)}`,
      )
    }
  }
  return current
}

function accept(definition: AnyMessageDefinition, subject: Subject, result: SchemaResult<unknown>): Parsed {
  if (result.issues)
    return dead(
      new IchidoError('INVALID_DATA', `${definition.type} does not fit its schema: ${describe(result.issues)}`),
    )
  const { id, topic, key, sentAt, body, headers } = subject
  const message = new ReceivedMessage(
    id,
    definition.type,
    definition.version,
    topic,
    key,
    sentAt,
    body,
    headers,
    result.value,
  )
  return { kind: 'message', message }
}

const noHeaders: Headers = Object.freeze(Object.create(null))

/** Headers are parsed when somebody looks at them. */
class ReceivedMessage implements Message {
  readonly id: string
  readonly type: string
  readonly version: number
  readonly topic: string
  readonly key: string | null
  readonly sentAt: number
  readonly body: Uint8Array
  readonly data: unknown
  readonly #headersText: string

  constructor(
    id: string,
    type: string,
    version: number,
    topic: string,
    key: string | null,
    sentAt: number,
    body: Uint8Array,
    headersText: string,
    data: unknown,
  ) {
    this.id = id
    this.type = type
    this.version = version
    this.topic = topic
    this.key = key
    this.sentAt = sentAt
    this.body = body
    this.#headersText = headersText
    this.data = data
  }

  get headers(): Headers {
    return this.#headersText === '{}' ? noHeaders : JSON.parse(this.#headersText)
  }
}

function describe(issues: readonly SchemaIssue[]): string {
  return issues
    .slice(0, 5)
    .map(issue => {
      const path = (issue.path ?? []).map(step => String(typeof step === 'object' ? step.key : step)).join('.')
      return path ? `${path}: ${issue.message}` : issue.message
    })
    .join('; ')
}

function dead(error: IchidoError): Parsed {
  const upcastFault = error.code === 'NO_UPCAST' || error.code === 'UPCAST_FAILED'
  const stored = toStoredError(error, upcastFault ? 'system' : 'format', error.code)
  return { kind: 'dead', error: { ...stored, stack: null } }
}

function reason(error: unknown): string {
  return toStoredError(error, 'format', 'ERROR').message
}
