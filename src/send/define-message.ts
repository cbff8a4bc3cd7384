import { IchidoError } from '../contracts/errors.ts'
import { limits } from '../contracts/limits.ts'
import type { MessageDefinition, Schema, SchemaInput, SchemaOutput } from '../contracts/schema.ts'

export interface MessageOptions<Type extends string, S extends Schema> {
  /** Lower-case letters, digits, dots, hyphens and underscores, at most 100. */
  readonly type: Type
  /** A whole number from 1 on; raise it when the meaning of the body changes. Default 1. */
  readonly version?: number
  /** Where it is sent. Default: the type. */
  readonly topic?: string
  /** Any Standard Schema. `send` takes its input, a handler sees its output. */
  readonly schema: S
  /** `upcast[n]` turns a body of version n into version n + 1; needed for every older version that may still wait. */
  // biome-ignore lint/suspicious/noExplicitAny: an old body has the shape that its producer knew
  readonly upcast?: Readonly<Record<number, (old: any) => unknown>>
  /** Messages of the same key are handled in the order of their sends. */
  readonly key?: (input: SchemaInput<S>) => string | null | undefined
}

/** Describes a message once, for its senders and its consumers. Throws INVALID_CONFIG. */
export function defineMessage<const Type extends string, S extends Schema>(
  options: MessageOptions<Type, S>,
): MessageDefinition<Type, SchemaInput<S>, SchemaOutput<S>> {
  const { type, version = 1, topic = type, schema, upcast = {}, key = null } = options
  const faults: string[] = []
  if (!limits.name.test(type)) faults.push(`type ${JSON.stringify(type)} must match ${limits.name.source}`)
  if (!limits.name.test(topic)) faults.push(`topic ${JSON.stringify(topic)} must match ${limits.name.source}`)
  if (!Number.isSafeInteger(version) || version < 1) faults.push(`version ${version} must be a whole number from 1 on`)
  if (typeof schema?.['~standard']?.validate !== 'function')
    faults.push('schema must be a Standard Schema, such as one of zod')
  for (const from of Object.keys(upcast)) {
    if (!(Number(from) >= 1 && Number(from) < version)) faults.push(`upcast ${from} must be a version below ${version}`)
  }
  if (faults.length > 0)
    throw new IchidoError('INVALID_CONFIG', `The message ${type} is not usable: ${faults.join('; ')}.`)
  return { type, version, topic, schema: schema as never, upcast, key }
}
