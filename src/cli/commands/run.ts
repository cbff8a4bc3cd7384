import type { Command } from 'commander'
import { IchidoError } from '../../contracts/errors.ts'
import { defaults } from '../../contracts/limits.ts'
import { systemClock } from '../../runtime/clock.ts'
import { type IchidoConfig, suggestion } from '../../runtime/config.ts'
import { start } from '../../runtime/start.ts'
import { exitCodes } from '../exit.ts'
import { loadConfig } from '../load-config.ts'
import { chooseLog, logEvents } from '../run-log.ts'
import { configOption, withExamples } from './place.ts'

interface RunOptions {
  readonly config?: string
  readonly only?: readonly string[]
  readonly json?: boolean
}

export function addRun(program: Command): void {
  const command = program
    .command('run')
    .description('run the consumers of the configuration until SIGTERM or SIGINT; a second signal ends it at once')
    .addOption(configOption())
    .option('--only <consumers...>', 'run these consumers only')
    .option('--json', 'lines of JSON on a terminal too')
  withExamples(command, 'run', 'run --config workers/ichido.config.ts --only billing').action(run)
}

/** What is left to do after the deadline of a shutdown: closing connections. */
const CLOSING_MS = 5_000

async function run(options: RunOptions): Promise<void> {
  // First of all: a signal that comes while it starts must stop it in good order too.
  const signal = untilSignal()
  const config = await loadConfig(options.config)
  const consumers = chosen(config, options.only)
  const log = config.options.log ?? chooseLog(options.json)
  const ichido = await start({ ...config, options: { ...config.options, log } }, { consume: options.only ?? true })
  logEvents(ichido, log)
  log.info('running', { consumers, store: config.store.name, build: config.options.build ?? null })
  log.info('stopping', { signal: await signal })
  const shutdownMs = config.options.shutdownMs ?? defaults.shutdownMs
  systemClock.after(
    shutdownMs + CLOSING_MS,
    () => {
      log.error('gave up: a handler or the database does not let go', { shutdownMs })
      process.exit(exitCodes.critical)
    },
    true,
  )
  await ichido.stop()
  log.info('stopped')
}

function chosen(config: IchidoConfig, only: readonly string[] | undefined): string[] {
  const names = config.consumers.map(consumer => consumer.name)
  if (names.length === 0)
    throw new IchidoError('INVALID_CONFIG', 'The configuration has no consumers to run.', {
      hint: 'List them in `consumers` of defineIchido.',
    })
  const unknown = (only ?? []).filter(name => !names.includes(name))
  if (unknown.length > 0) {
    const faults = unknown.map(name => `There is no consumer ${name}${suggestion(name, names)}.`)
    throw new IchidoError('INVALID_CONFIG', faults.join('\n'), { hint: `Known are: ${names.join(', ')}.` })
  }
  return names.filter(name => only === undefined || only.includes(name))
}

/** Resolves with the first signal; the second one ends the process at once. */
function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise(resolve => {
    let count = 0
    const onSignal = (name: NodeJS.Signals) => {
      if (++count > 1) process.exit(exitCodes.critical)
      resolve(name)
    }
    process.on('SIGTERM', onSignal)
    process.on('SIGINT', onSignal)
  })
}
