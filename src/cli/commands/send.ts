import type { Command } from 'commander'
import { IchidoError } from '../../contracts/errors.ts'
import { suggestion } from '../../runtime/config.ts'
import { start } from '../../runtime/start.ts'
import { loadConfig } from '../open-store.ts'
import { answer } from '../output.ts'

interface Options {
  readonly config?: string
  readonly json?: boolean
  readonly id?: string
  readonly key?: string
  readonly delay?: string
}

export function addSend(program: Command): void {
  program
    .command('send')
    .description('send one message of the configuration, for a try or a repair')
    .argument('<type>', 'the type of the message')
    .argument('<json>', 'its data as JSON, or - to read them from standard input')
    .option('--config <file>', 'the configuration (default: ./ichido.config.ts)')
    .option('--id <id>', 'its id; the same id is sent only once')
    .option('--key <key>', 'overrides the key of the definition')
    .option('--delay <ms>', 'due this many milliseconds from now')
    .option('--json', 'print JSON for programs')
    .action(send)
}

async function send(type: string, json: string, options: Options): Promise<void> {
  const config = await loadConfig(options.config)
  const definition = config.messages.find(message => message.type === type)
  if (!definition) {
    const known = config.messages.map(message => message.type)
    throw new IchidoError('INVALID_CONFIG', `The configuration knows no message ${type}${suggestion(type, known)}.`, {
      hint: `Known are: ${known.join(', ')}.`,
    })
  }
  const data = readJson(json === '-' ? await readInput() : json)
  await using ichido = await start(config, { consume: false })
  const { id, key, delay } = options
  const result = await ichido.send(definition, data, {
    ...(id !== undefined && { id }),
    ...(key !== undefined && { key }),
    ...(delay !== undefined && { delayMs: Number(delay) }),
  })
  answer(options.json, 'ok', result, () => {
    if (result.duplicate) return `${result.id} was sent before: nothing was written.`
    return result.kept ? `${result.id} is kept: nobody consumes ${definition.topic} yet.` : `${result.id} was sent.`
  })
}

function readJson(text: string): never {
  try {
    return JSON.parse(text) as never
  } catch (cause) {
    throw new IchidoError('INVALID_MESSAGE', `The data are not JSON: ${(cause as Error).message}.`, {
      cause,
      hint: 'Quote the JSON for the shell.',
    })
  }
}

async function readInput(): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
