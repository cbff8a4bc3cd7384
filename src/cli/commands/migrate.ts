import type { Command } from 'commander'
import { isIchidoError } from '../../contracts/errors.ts'
import type { Migration, Store, Subscription } from '../../contracts/store.ts'
import type { IchidoConfig } from '../../runtime/config.ts'
import { subscriptionsOf } from '../../runtime/consumers.ts'
import { type Opened, withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { marked } from '../terminal.ts'
import { type PlaceOptions, withExamples, withPlace } from './place.ts'

interface MigrateOptions extends PlaceOptions {
  readonly plan?: boolean
  readonly accept?: boolean
}

export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .description("create or update ichido's tables, and register the consumers of the configuration")
  withExamples(
    withPlace(migrate)
      .option('--plan', 'print the SQL that would run, and change nothing')
      .option('--accept', 'accept that a consumer has other topics, order or onDead than before'),
    'migrate --plan',
    'migrate --config ichido.config.ts',
    'migrate --store postgres://owner@db/app',
  ).action((options: MigrateOptions) => {
    const purpose = options.plan ? 'look' : 'create'
    return withStore(options, purpose, opened => (options.plan ? plan(opened, options) : apply(opened, options)))
  })
}

type ConsumerChange = { readonly name: string; readonly change: 'new' | 'changed' | 'as before' }

async function plan({ store, config }: Opened, { json }: MigrateOptions): Promise<void> {
  const pending = await store.pendingMigrations()
  const consumers = changesOf(config, await knownSubscriptions(store, pending))
  const migrations = pending.map(({ number, name, breaking, sql }) => ({ number, name, breaking, sql }))
  answer(json, 'ok', { migrations, consumers }, () => {
    const sql = pending.map(({ number, name, breaking, sql: text }) => {
      return `-- ${number} ${name}${breaking ? ': breaking, older workers refuse to go on' : ''}\n${text.trim()}\n`
    })
    const news = consumers
      .filter(({ change }) => change !== 'as before')
      .map(({ name, change }) => {
        return `-- The consumer ${name} ${change === 'new' ? 'is new.' : 'has changed: this needs --accept.'}`
      })
    return [...(sql.length === 0 ? ['-- The tables are up to date.'] : sql), ...news].join('\n')
  })
}

/** There is nothing to read before the first migration. */
async function knownSubscriptions(store: Store, pending: readonly Migration[]): Promise<readonly Subscription[]> {
  try {
    await store.checkSchema()
  } catch (error) {
    if (pending.length > 0 && isIchidoError(error)) return []
    throw error
  }
  return store.subscriptions()
}

function changesOf(config: IchidoConfig | null, known: readonly Subscription[]): ConsumerChange[] {
  return (config?.consumers ?? []).map(consumer => {
    const before = known.filter(subscription => subscription.consumer === consumer.name)
    const fingerprint = subscriptionsOf(consumer)[0]?.fingerprint
    if (before.length === 0) return { name: consumer.name, change: 'new' }
    const changed = before.some(subscription => subscription.fingerprint !== fingerprint)
    return { name: consumer.name, change: changed ? 'changed' : 'as before' }
  })
}

async function apply({ store, config, name }: Opened, { json, accept }: MigrateOptions): Promise<void> {
  const migrations = await store.migrate()
  const consumers = changesOf(config, await store.subscriptions())
  // A store that was named by its address has no consumers to register.
  await store.subscribe((config?.consumers ?? []).flatMap(subscriptionsOf), accept === true)
  const applied = migrations.map(({ number, name: title, breaking }) => ({ number, name: title, breaking }))
  answer(json, 'ok', { applied, consumers }, () => {
    const tables =
      applied.length === 0
        ? `The tables of ${name} were up to date.`
        : `Applied to ${name}: ${applied.map(migration => migration.name).join(', ')}.`
    const lines = consumers.map(({ name: consumer, change }) => {
      return marked('ok', `consumer ${consumer}: ${change === 'changed' ? 'changed, accepted' : change}`)
    })
    return [marked('ok', tables), ...lines].join('\n')
  })
}
