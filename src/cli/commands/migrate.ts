import type { Command } from 'commander'
import { subscriptionsOf } from '../../runtime/consumers.ts'
import { loadConfig, openStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { type PlaceOptions, withPlace } from './place.ts'

interface MigrateOptions extends PlaceOptions {
  readonly plan?: boolean
  readonly accept?: boolean
}

export function addMigrate(program: Command): void {
  withPlace(
    program
      .command('migrate')
      .description("create or update ichido's tables, and register the consumers of the configuration"),
  )
    .option('--plan', 'print the SQL that would run, and change nothing')
    .option('--accept', 'accept that a consumer has other topics, order or onDead than before')
    .action(migrate)
}

async function migrate(options: MigrateOptions): Promise<void> {
  const opened = await openStore(options)
  try {
    if (options.plan) {
      const pending = await opened.store.pendingMigrations()
      const sql = () =>
        pending.map(({ number, name, sql: text }) => `-- ${number} ${name}\n${text.trim()}`).join('\n\n')
      answer(options.json, 'ok', pending, () => (pending.length === 0 ? 'Nothing to apply.' : sql()))
      return
    }
    const applied = await opened.store.migrate()
    // A store that was named by its address has no consumers to register.
    const consumers = options.store ? [] : (await loadConfig(options.config)).consumers
    await opened.store.subscribe(consumers.flatMap(subscriptionsOf), options.accept === true)
    const value = {
      applied: applied.map(({ number, name }) => ({ number, name })),
      consumers: consumers.map(consumer => consumer.name),
    }
    answer(options.json, 'ok', value, () => {
      const what =
        applied.length === 0
          ? 'The tables were up to date.'
          : `Applied: ${applied.map(migration => migration.name).join(', ')}.`
      return `${what} ${consumers.length === 0 ? '' : `Consumers: ${value.consumers.join(', ')}.`}`.trim()
    })
  } finally {
    await opened.close()
  }
}
