import type { Command } from 'commander'
import { isIchidoError } from '../../contracts/errors.ts'
import type { Finding, StoreStatus } from '../../contracts/ledger.ts'
import { defaults, limits } from '../../contracts/limits.ts'
import type { Store, Subscription } from '../../contracts/store.ts'
import { inWords, judge } from '../../observe/wording.ts'
import type { IchidoConfig } from '../../runtime/config.ts'
import { subscriptionsOf } from '../../runtime/consumers.ts'
import { worst } from '../exit.ts'
import { type Opened, withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { dim, type Level, marked, visible, wrap } from '../terminal.ts'
import { type PlaceOptions, withExamples, withPlace } from './place.ts'

export function addDoctor(program: Command, version: string): void {
  const doctor = program
    .command('doctor')
    .description('the guarantee that is really in force: versions, settings, consumers, retention, clock')
  withExamples(withPlace(doctor), 'doctor', 'doctor --store postgres://ops@db/app').action((options: PlaceOptions) =>
    show(options, version),
  )
}

function show(options: PlaceOptions, version: string): Promise<void> {
  return withStore(options, 'look', async opened => {
    const findings = await examine(opened, version)
    const level = worst(findings.map(finding => finding.level))
    const settings = settingsOf(opened.config)
    const value = {
      level,
      grade: 'effectively-once',
      findings,
      settings,
      limits: { ...limits, name: limits.name.source },
    }
    answer(options.json, level, value, () => `${describe(findings)}\n\n${guarantee(opened, level)}`)
  })
}

/** A store that was opened by its address has a pool of this command, which says nothing of the workers'. */
const ofWorkers = new Set(['pool size', 'heartbeat'])

async function examine({ store, config }: Opened, version: string): Promise<Finding[]> {
  const programs = [ok('ichido', version), ok('Node.js', process.versions.node)]
  const facts = await store.reads.diagnose()
  const database = config ? facts : facts.filter(finding => !ofWorkers.has(finding.name))
  const schema = await examineSchema(store)
  if (schema.level === 'critical') return [...programs, ...database, schema]
  const status = await store.reads.status()
  return [
    ...programs,
    ...database,
    schema,
    ...examineConsumers(await store.subscriptions(), status, config),
    ...examineRetention(status, config),
  ]
}

function ok(name: string, value: string, note: string | null = null): Finding {
  return { name, value, level: 'ok', note }
}

async function examineSchema(store: Store): Promise<Finding> {
  try {
    await store.checkSchema()
  } catch (error) {
    if (!isIchidoError(error)) throw error
    return { name: 'schema', value: error.code, level: 'critical', note: `${error.message} ${error.hint}` }
  }
  const pending = (await store.pendingMigrations()).length
  if (pending === 0) return ok('schema', 'up to date')
  return { name: 'schema', value: `${pending} pending`, level: 'warning', note: 'Run `ichido migrate`.' }
}

/** What the store knows of each consumer, against what the configuration says of it. */
function examineConsumers(
  known: readonly Subscription[],
  { consumers, now }: StoreStatus,
  config: IchidoConfig | null,
): Finding[] {
  const findings = consumers.map((status): Finding => {
    const { consumer, topics } = status
    const declared = config?.consumers.find(candidate => candidate.name === consumer)
    const promise = declared ? `order ${declared.order}, dead letters ${declared.onDead}, ` : ''
    const value = `${promise}topics ${topics.map(visible).join(', ')}`
    const name = `consumer ${visible(consumer)}`
    if (declared && isChanged(known, subscriptionsOf(declared)))
      return {
        name,
        value,
        level: 'critical',
        note: 'The configuration differs from what the store knows, so it will not start: run `ichido migrate --accept`.',
      }
    const { word, level } = judge(status, now, config?.options.leaseMs)
    if (level !== 'ok' && status.states.dead + status.states.passed === 0)
      return { name, value, level: 'warning', note: `Its state is "${word}": look at \`ichido status\`.` }
    return ok(name, value, config && !declared ? 'Not in this configuration.' : null)
  })
  const missing = (config?.consumers ?? []).filter(each => !consumers.some(status => status.consumer === each.name))
  const unknown = missing.map(({ name }): Finding => {
    const note = 'The store does not know it yet, and keeps its messages: run `ichido migrate`, or start it.'
    return { name: `consumer ${name}`, value: 'new', level: 'warning', note }
  })
  return [...findings, ...unknown]
}

function isChanged(known: readonly Subscription[], declared: readonly Subscription[]): boolean {
  const [first] = declared
  return known.some(other => other.consumer === first?.consumer && other.fingerprint !== first.fingerprint)
}

/** Unfinished work is its own memory; only copies that come again after the retention need a person. */
function examineRetention({ now, consumers }: StoreStatus, config: IchidoConfig | null): Finding[] {
  const retentionMs = config?.options.retentionMs ?? defaults.retentionMs
  const source = config?.options.retentionMs === undefined ? 'default' : 'configured'
  const oldest = consumers.filter(status => status.oldestAt !== null)
  const ages = oldest.map(({ consumer, oldestAt }): Finding => {
    const age = now - (oldestAt as number)
    const name = `oldest of ${visible(consumer)}`
    if (age * 1.2 <= retentionMs) return ok(name, inWords(age))
    const note =
      'Messages wait for longer than ended ones are remembered: a copy that comes again so late becomes a dead letter UNPROVABLE. Raise retentionMs.'
    return { name, value: inWords(age), level: 'warning', note }
  })
  return [ok('retention', `${inWords(retentionMs)} (${source})`), ...ages]
}

function settingsOf(config: IchidoConfig | null) {
  const {
    retry,
    timeoutMs,
    leaseMs,
    beatMs,
    transactionMs,
    maxDeaths,
    retentionMs,
    retentionMarginMs,
    keptMs,
    shutdownMs,
  } = { ...defaults, ...definedOf(config) }
  return {
    retry,
    timeoutMs,
    leaseMs,
    beatMs,
    transactionMs,
    maxDeaths,
    retentionMs,
    retentionMarginMs,
    keptMs,
    shutdownMs,
  }
}

function definedOf(config: IchidoConfig | null): Partial<Record<keyof typeof defaults, never>> {
  return Object.fromEntries(Object.entries(config?.options ?? {}).filter(([, value]) => value !== undefined))
}

function describe(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(finding => finding.name.length))
  return findings
    .map(({ name, value, level, note }) => {
      const line = `${marked(level, name)}${' '.repeat(width - name.length)}  ${value}`
      return note === null ? line : `${line}\n${dim(`    ${wrap(note, 4)}`)}`
    })
    .join('\n')
}

function guarantee({ name, config }: Opened, level: Level): string {
  const settings = settingsOf(config)
  const { maxAttempts, baseMs, capMs } = settings.retry

  const grade = `effectively-once: the record of a message commits with the handler's own change in ${name}.`
  return [
    level === 'critical' ? `Not in force until what is marked ✗ is mended: ${grade}` : `In force: ${grade}`,
    `A consumer's own settings apart: ${maxAttempts} attempts, ${inWords(baseMs)} to ${inWords(capMs)} apart; ${inWords(settings.timeoutMs)} per stage; lease ${inWords(settings.leaseMs)}, beat ${inWords(settings.beatMs)}; dead after ${settings.maxDeaths} deaths alone; memory of ended messages ${inWords(settings.retentionMs)}; messages without a consumer kept ${inWords(settings.keptMs)}.`,
    `Limits: body ${limits.bodyBytes} bytes; ${limits.headerCount} headers of ${limits.headerBytes} bytes in all; id and key ${limits.idBytes} bytes; JSON ${limits.jsonDepth} deep.`,
    'Not promised: that effects outside the store happen once, and any order between messages of different keys.',
  ]
    .map(text => wrap(text, 2))
    .join('\n')
}
