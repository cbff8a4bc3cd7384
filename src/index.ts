export {
  type Consumer,
  type ConsumerOptions,
  defineConsumer,
  type HandleInput,
  type PrepareInput,
} from './consume/consumer.ts'
export type { Clock } from './contracts/clock.ts'
export {
  type ErrorCode,
  errorCodes,
  IchidoError,
  isIchidoError,
  PermanentError,
  TransientError,
} from './contracts/errors.ts'
export { type EventName, type Events, eventNames } from './contracts/events.ts'
export { defaults, limits } from './contracts/limits.ts'
export type { Log } from './contracts/log.ts'
export type { Headers, Message, SendOptions } from './contracts/message.ts'
export type { CertaintyLabel, ErrorClass, Outcome, StoredError } from './contracts/outcome.ts'
export type { MessageDefinition, Schema } from './contracts/schema.ts'
export type { SqlTx, Store } from './contracts/store.ts'
export { type Classification, type Classifier, classify } from './outcomes/classify.ts'
export { defineIchido, type ErrorReport, type IchidoConfig, type IchidoOptions } from './runtime/config.ts'
export type { Ichido, OwnTransaction, SendResult } from './runtime/ichido.ts'
export { type StartOptions, start } from './runtime/start.ts'
export { defineMessage, type MessageOptions } from './send/define-message.ts'
