import type { Command } from 'commander'
import { IchidoError } from '../../contracts/errors.ts'
import { suggestion } from '../../runtime/config.ts'
import { start } from '../../runtime/start.ts'
import { loadConfig } from '../load-config.ts'
import { answer } from '../output.ts'
import { configOption, jsonOption, withExamples } from './place.ts'

interface Options {
  readonly config?: string
  readonly json?: boolean
  readonly id?: string
  readonly key?: string
  readonly delay?: string
}

export function addSend(program: Command): void {
  const command = program
    .command('send')
    .description('send one message of the configuration, for a try or a repair')
    .argument('<type>', 'the type of the message')
    .argument('<json>', 'its data as JSON, or - to read them from standard input')
    .addOption(configOption())
    .option('--id <id>', 'its id; the same id is sent only once')
    .option('--key <key>', 'overrides the key of the definition')
    .option('--delay <time>', 'due this long from now: 1500 (milliseconds), 90s, 5min, 2h or 3d')
    .addOption(jsonOption())
  withExamples(
    command,
    `send order.placed '{"orderId":"A-1","amount":1999}' --id checkout-A-1`,
    'send order.placed - --delay 5min < order.json',
  ).action(send)
}

async function send(type: string, json: string, options: Options): Promise<void> {
  const { id, key, delay } = options
  const delayMs = delay === undefined ? undefined : readDelay(delay)
  const config = await loadConfig(options.config)
  const definition = config.messages.find(message => message.type === type)
  if (!definition) {
    const known = config.messages.map(message => message.type)
    throw new IchidoError('INVALID_CONFIG', `The configuration knows no message ${type}${suggestion(type, known)}.`, {
      hint: `Known are: ${known.join(', ') || 'none'}.`,
    })
  }
  const data = readJson(json === '-' ? await readInput() : json)
  await using ichido = await start(config, { consume: false })
  const result = await ichido.send(definition, data, {
    ...(id !== undefined && { id }),
    ...(key !== undefined && { key }),
    ...(delayMs !== undefined && { delayMs }),
  })
  answer(options.json, 'ok', result, () => {
    if (result.duplicate) return `${result.id} was sent before: nothing was written.`
    return result.kept ? `${result.id} is kept: nobody consumes ${definition.topic} yet.` : `${result.id} was sent.`
  })
}

const units: Readonly<Record<string, number>> = { '': 1, ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 }

function readDelay(text: string): number {
  const [, amount, unit = ''] = /^(\d{1,12})(ms|s|min|h|d)?$/.exec(text) ?? []
  if (amount === undefined)
    throw new IchidoError('INVALID_CONFIG', `--delay ${text} is no length of time.`, {
      hint: 'Write milliseconds, or a number with ms, s, min, h or d.',
    })
  return Number(amount) * (units[unit] as number)
}

/** JSON.parse bends numbers that a double cannot hold, and a message would go out with another amount than was typed. */
function readJson(text: string): never {
  const refuse = (message: string, hint: string, cause?: unknown) =>
    new IchidoError('INVALID_MESSAGE', message, { hint, ...(cause !== undefined && { cause }) })
  try {
    return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) => {
      if (typeof value === 'number' && context?.source !== undefined && isBent(value, context.source))
        throw refuse(`The number ${context.source} would become ${value}.`, 'Send it as a string.')
      return value
    }) as never
  } catch (cause) {
    if (cause instanceof IchidoError) throw cause
    throw refuse(`The data are not JSON: ${(cause as Error).message}.`, 'Quote the JSON for the shell.', cause)
  }
}

function isBent(value: number, source: string): boolean {
  if (!Number.isFinite(value)) return true
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(value) && BigInt(source) !== BigInt(value)
}

async function readInput(): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch (cause) {
    throw new IchidoError('INVALID_MESSAGE', 'Standard input is not UTF-8.', { cause, hint: 'Convert it to UTF-8.' })
  }
}
