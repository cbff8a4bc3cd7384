import { errorCodes, isIchidoError } from '../contracts/errors.ts'
import { exitCodes } from './exit.ts'
import { errorColors, type Level, redact, visible, visibleJson } from './terminal.ts'

/** Prints an answer as JSON or as text for people, and sets the exit code by its level. */
export function answer(json: boolean | undefined, level: Level, value: unknown, text: () => string): void {
  process.stdout.write(json ? `${visibleJson(JSON.stringify(value, null, 2))}\n` : `${text()}\n`)
  process.exitCode = exitCodes[level]
}

/** An error as an operator needs it: what happened, the code to look up, and what to do next. With `json` one object on one line. */
export function explain(error: unknown, json: boolean): string {
  const safe = (text: string) => text.split('\n').map(visible).join('\n')
  if (!isIchidoError(error)) {
    const text = redact(safe(error instanceof Error ? (error.stack ?? error.message) : String(error)))
    return json
      ? asJson('UNEXPECTED', text, 'Report this fault of ichido with its text.', false)
      : errorColors.red(text)
  }
  const { code, retryable } = error
  const [message, hint] = [redact(safe(error.message)), redact(safe(error.hint))]
  if (json) return asJson(code, message, hint, retryable)
  const lookup = code in errorCodes ? ` ${errorColors.dim(`(${code})`)}` : ''
  return `${errorColors.red(`✗ ${message}`)}${lookup}\n  ${hint}`
}

function asJson(code: string, message: string, hint: string, retryable: boolean): string {
  return visibleJson(JSON.stringify({ error: { code, message, hint, retryable } }))
}
