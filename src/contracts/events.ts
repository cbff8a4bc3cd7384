import type { CertaintyLabel, Outcome, StoredError } from './outcome.ts'

/** What the runtime tells the outside while it works. Documented in `docs/events.md`. Payloads are never part of an event. */
export interface Events {
  /** An attempt ended. `durationMs` is the handler's own time. */
  settled: {
    readonly consumer: string
    readonly topic: string
    readonly id: string
    readonly outcome: Outcome
    readonly attempt: number
    readonly durationMs: number
    readonly error?: StoredError
  }
  /** A delivery became a dead letter. */
  dead: {
    readonly consumer: string
    readonly topic: string
    readonly id: string
    readonly attempt: number
    readonly label: CertaintyLabel
    readonly error: StoredError
  }
  /** A claim or a settle found that another process owns the deliveries now. */
  fenced: { readonly consumer: string; readonly count: number }
  /** A COMMIT whose answer was lost has been resolved by claiming again. */
  commitResolved: { readonly consumer: string; readonly committed: number; readonly open: number }
  /** The store or transport fails; work is paused until `recovered`. */
  degraded: { readonly part: string; readonly code: string; readonly message: string }
  recovered: { readonly part: string; readonly afterMs: number }
  /** A process was taken for dead; its deliveries are suspects now. */
  processLost: { readonly incarnation: string; readonly suspects: number; readonly dead: number }
  /** This process was taken for dead while it was paused; it goes on under a new incarnation. */
  incarnationLost: { readonly incarnation: string }
  /** A handler kept the event loop busy for longer than a beat. */
  loopBlocked: { readonly blockedMs: number }
  /** A hook of the user threw; nothing else was harmed. */
  hookFailed: { readonly hook: string; readonly message: string }
  started: { readonly incarnation: string; readonly consumers: readonly string[] }
  stopped: { readonly incarnation: string; readonly released: number }
}

export type EventName = keyof Events

export const eventNames = [
  'settled',
  'dead',
  'fenced',
  'commitResolved',
  'degraded',
  'recovered',
  'processLost',
  'incarnationLost',
  'loopBlocked',
  'hookFailed',
  'started',
  'stopped',
] as const satisfies readonly EventName[]
