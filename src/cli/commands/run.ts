import type { Command } from 'commander'
import { systemClock } from '../../runtime/clock.ts'
import { createLog } from '../../runtime/log.ts'
import { start } from '../../runtime/start.ts'
import { loadConfig } from '../open-store.ts'

export function addRun(program: Command): void {
  program
    .command('run')
    .description('run the consumers of the configuration until SIGTERM or SIGINT')
    .option('--config <file>', 'the configuration (default: ./ichido.config.ts)')
    .option('--only <consumer...>', 'run these consumers only')
    .action(run)
}

async function run(options: { config?: string; only?: string[] }): Promise<void> {
  const config = await loadConfig(options.config)
  const log =
    config.options.log ??
    createLog(
      line => process.stdout.write(line),
      () => systemClock.now(),
    )
  const ichido = await start(config, { consume: options.only ?? true })
  const { signal, stop } = untilSignal()
  ichido.on('dead', ({ error, ...event }) =>
    log.error('dead letter', { ...event, class: error.class, code: error.code }),
  )
  ichido.on('degraded', event => log.warn('degraded', { ...event }))
  ichido.on('recovered', event => log.info('recovered', { ...event }))
  ichido.on('processLost', event => log.warn('a process was lost', { ...event }))
  ichido.on('loopBlocked', event => log.warn('a handler blocked the event loop', { ...event }))
  ichido.on('hookFailed', event => log.warn('a hook failed', { ...event }))
  log.info('running', { consumers: config.consumers.map(consumer => consumer.name), store: config.store.name })
  log.info('stopping', { signal: await signal })
  await ichido.stop()
  stop()
  log.info('stopped')
}

/** Resolves with the first signal; the second one ends the process at once. */
function untilSignal() {
  let received: (name: string) => void = () => {}
  const signal = new Promise<string>(resolve => {
    received = resolve
  })
  let count = 0
  const onSignal = (name: NodeJS.Signals) => {
    if (++count > 1) process.exit(2)
    received(name)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return {
    signal,
    stop() {
      process.removeListener('SIGTERM', onSignal)
      process.removeListener('SIGINT', onSignal)
    },
  }
}
