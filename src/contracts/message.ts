/** Text pairs that travel with a message, byte for byte, through retries, dead letters and redrives. */
export type Headers = Readonly<Record<string, string>>

/** What a handler sees of a message. `data` is the output of the schema. */
export interface Message<Type extends string = string, Data = unknown> {
  /** Made at the source and never changed on its way. */
  readonly id: string
  readonly type: Type
  /** The version that the schema describes; older bodies were upcast to it. */
  readonly version: number
  readonly topic: string
  /** Order holds among messages of the same key, and nowhere else. */
  readonly key: string | null
  readonly headers: Headers
  /** First send, milliseconds since 1970; relays and redrives do not change it. */
  readonly sentAt: number
  /** The bytes as they were sent. */
  readonly body: Uint8Array
  readonly data: Data
}

export interface SendOptions {
  /** Made once per user action, at the source. Default: a new UUIDv7. The same id with the same contents is a duplicate. */
  readonly id?: string
  /** Overrides the definition's key; null: no key. */
  readonly key?: string | null
  /** Due this long after now, on the store's clock. */
  readonly delayMs?: number
  /** Due at this time. Not together with `delayMs`. */
  readonly at?: Date
  /** At most 64 pairs, 16 KiB in all. */
  readonly headers?: Headers
  /** The message whose place this one takes wherever that one is not done yet. */
  readonly replaces?: string
}

/** A message on its way into a store: validated, encoded, hashed. */
export interface OutgoingMessage {
  readonly id: string
  readonly topic: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  /** The headers as JSON text (pure ASCII escapes for what a database could refuse). */
  readonly headers: string
  readonly body: Uint8Array
  /** 16 bytes over type, version, key and body; see `send/hash.ts`. */
  readonly hash: Uint8Array
  /** Null: the store's clock decides. */
  readonly sentAt: number | null
  /** When it becomes due, milliseconds since 1970. Wins over `delayMs`. */
  readonly dueAt: number | null
  /** Due this long after the store's now. */
  readonly delayMs: number | null
  /** The id of the message whose place this one takes, at each consumer that has it unfinished. */
  readonly replaces: string | null
}

/** What became of one outgoing message. */
export interface Acceptance {
  readonly id: string
  /** Every consumer (or the kept messages) already had this id with the same contents: nothing was written. */
  readonly duplicate: boolean
  /** Nobody consumes the topic yet: the message waits for the first consumer. */
  readonly kept: boolean
  /** How many consumers got a delivery by this send. */
  readonly fanOut: number
}
