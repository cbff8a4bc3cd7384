import colors from 'picocolors'
import { errorCodes, isIchidoError } from '../contracts/errors.ts'
import { exitCodes } from './exit.ts'
import { type Level, redact, visible } from './terminal.ts'

/** Prints an answer as JSON or as text for people, and sets the exit code by its level. */
export function answer(json: boolean | undefined, level: Level, value: unknown, text: () => string): void {
  process.stdout.write(json ? `${JSON.stringify(value, null, 2)}\n` : `${text()}\n`)
  process.exitCode = exitCodes[level]
}

/** An error as an operator needs it: what, the code to look up, and what to do next. */
export function explain(error: unknown): string {
  if (!isIchidoError(error)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return colors.red(redact(text))
  }
  const known = error.code in errorCodes
  return `${colors.red(`✗ ${redact(lines(error.message))}`)} ${known ? colors.dim(`(${error.code})`) : ''}\n  ${redact(error.hint)}`
}

function lines(text: string): string {
  return text.split('\n').map(visible).join('\n')
}
