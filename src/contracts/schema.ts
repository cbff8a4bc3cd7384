import type { Message, SendOptions } from './message.ts'

/** One fault that a schema found. */
export interface SchemaIssue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<SchemaIssue> }

/** The part of the Standard Schema interface (standardschema.dev, version 1) that ichido calls; zod, valibot and arktype have it. */
export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type TypesOf<S extends Schema> = NonNullable<S['~standard']['types']>
export type SchemaInput<S extends Schema> = TypesOf<S>['input']
export type SchemaOutput<S extends Schema> = TypesOf<S>['output']

/** What `defineMessage` makes: a type, its version, how it is checked, upcast and keyed. */
export interface MessageDefinition<Type extends string = string, Input = unknown, Output = unknown> {
  readonly type: Type
  readonly version: number
  readonly topic: string
  readonly schema: Schema<Input, Output>
  /** `upcast[n]` turns a body of version n into version n + 1. */
  readonly upcast: Readonly<Record<number, (old: never) => unknown>>
  /** Of the schema's input, computed once at the send. Null and undefined: no key. */
  readonly key: ((input: Input) => string | null | undefined) | null
}

/** A definition of which only the shape matters. */
// biome-ignore lint/suspicious/noExplicitAny: variance; every definition must fit
export type AnyMessageDefinition = MessageDefinition<string, any, any>

/** What `send` takes for a definition. */
export type InputOf<D> = D extends MessageDefinition<string, infer Input, infer _> ? Input : never

/** What a handler sees of a definition; a union of definitions gives a union told apart by `type`. */
export type MessageOf<D> =
  D extends MessageDefinition<infer Type, infer _, infer Output> ? Message<Type, Output> : never

/** Sending inside a transaction: buffered, and written with the effect or not at all. */
export type SendInTransaction = <D extends AnyMessageDefinition>(
  definition: D,
  input: InputOf<D>,
  options?: SendOptions,
) => Promise<{ readonly id: string }>
