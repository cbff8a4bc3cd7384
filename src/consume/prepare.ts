import { IchidoError } from '../contracts/errors.ts'
import type { Message } from '../contracts/message.ts'
import { withFields } from './attempt.ts'
import type { RunningConsumer } from './running.ts'

export type Prepared =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown; readonly durationMs: number }

/** Runs the consumer's `prepare` for one message, without a transaction. Never rejects. */
export async function runPrepare(running: RunningConsumer, message: Message): Promise<Prepared> {
  const { clock, consumer, timeoutMs } = running
  const startedAt = clock.monotonic()
  const abort = new AbortController()
  const stop = () => abort.abort(running.signal.reason)
  running.signal.addEventListener('abort', stop, { once: true })
  const timer = clock.after(timeoutMs, () =>
    abort.abort(new IchidoError('HANDLER_TIMEOUT', `prepare has not returned within ${timeoutMs} ms.`)),
  )
  try {
    const given = new Promise<never>((_, reject) => {
      abort.signal.addEventListener('abort', () => reject(abort.signal.reason), { once: true })
    })
    given.catch(() => {})
    const log = withFields(running.log, { consumer: consumer.name, topic: message.topic, id: message.id })
    const own = (async () => consumer.prepare?.({ message: message as never, signal: abort.signal, log }))()
    return { ok: true, value: await Promise.race([own, given]) }
  } catch (error) {
    return { ok: false, error, durationMs: clock.monotonic() - startedAt }
  } finally {
    timer.cancel()
    running.signal.removeEventListener('abort', stop)
  }
}
