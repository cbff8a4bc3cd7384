import { userInfo } from 'node:os'
import { type Action, type Change, changeDeadLetters, selectDeadLetters } from '../../cases/reprocess.ts'
import type { DeadLetter } from '../../contracts/cases.ts'
import { IchidoError } from '../../contracts/errors.ts'
import type { Store } from '../../contracts/store.ts'
import { withStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { count, type Level, marked, table, visible } from '../terminal.ts'
import type { PlaceOptions } from './place.ts'

export interface ChangeOptions extends PlaceOptions {
  readonly consumer?: string
  readonly code?: string
  readonly all?: boolean
  readonly reason?: string
  readonly actor?: string
  readonly apply?: boolean
}

const done: Readonly<Record<Action, string>> = { redrive: 'Redriven', discard: 'Discarded', unblock: 'Unblocked' }

export function changeLetters(action: Action, ids: readonly string[], options: ChangeOptions): Promise<void> {
  const reason = checkRequest(action, ids, options)
  return withStore(options, 'change', async ({ store }) => {
    await store.checkSchema()
    const { letters, missing } = await select(store, [...new Set(ids)], options)
    const by = { actor: options.actor ?? operatingSystemUser(), reason }
    const changes = await changeDeadLetters(store, action, letters, by, options.apply === true)
    const level = levelOf(changes, missing)
    const value = { action, applied: options.apply === true, ...by, selected: letters.length, missing, changes }
    answer(options.json, level, value, () => describe(action, letters, missing, changes, options))
  })
}

function checkRequest(action: Action, ids: readonly string[], options: ChangeOptions): string {
  const refuse = (text: string, hint: string) => {
    throw new IchidoError('INVALID_CONFIG', text, { hint })
  }
  if (options.all && ids.length > 0) refuse('Ids and --all exclude each other.', 'Give one of the two.')
  if (options.all && options.consumer === undefined)
    refuse('--all needs the consumer whose dead letters are meant.', 'Add --consumer NAME.')
  if (!options.all && ids.length === 0)
    refuse(`Say which dead letters to ${action}.`, 'Give ids, or --all with --consumer.')
  const reason = options.reason?.trim() ?? ''
  if (reason === '') refuse('A reason is owed: it is written to the audit.', 'Add --reason "…".')
  return reason
}

async function select(store: Store, ids: readonly string[], { consumer, code, all }: ChangeOptions) {
  const filter = { ...(consumer !== undefined && { consumer }), ...(code !== undefined && { code }) }
  if (all) return { letters: await selectDeadLetters(store, filter), missing: [] }
  const letters: DeadLetter[] = []
  for (const id of ids) letters.push(...(await selectDeadLetters(store, { ...filter, id })))
  return { letters, missing: ids.filter(id => !letters.some(letter => letter.id === id)) }
}

/** A container may run under a number that has no name. */
function operatingSystemUser(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}

function levelOf(changes: readonly Change[], missing: readonly string[]): Level {
  if (changes.some(change => change.outcome === 'failed')) return 'critical'
  return missing.length > 0 || changes.some(change => change.outcome === 'refused') ? 'warning' : 'ok'
}

function describe(
  action: Action,
  letters: readonly DeadLetter[],
  missing: readonly string[],
  changes: readonly Change[],
  { apply }: ChangeOptions,
): string {
  const lines = missing.map(id => marked('warning', `${visible(id)} is no open dead letter.`))
  const rows = changes.map(({ outcome, message }, index) => {
    const { id, consumer, code, label } = letters[index] as DeadLetter
    const text = message === null ? '' : `: ${visible(message)}`
    return [visible(id), visible(consumer) || '–', visible(code), label, `${wordFor(outcome, action)}${text}`]
  })
  if (rows.length > 0) lines.push(table(['id', 'consumer', 'code', 'certainty', 'result'], rows))
  const possible = changes.filter(change => change.outcome === 'possible').length
  const applied = changes.filter(change => change.outcome === 'applied').length
  lines.push(
    apply
      ? `${done[action]}: ${applied} of ${changes.length}.`
      : `Would ${action} ${count(possible, 'dead letter')}. Nothing was changed: add --apply.`,
  )
  return lines.join('\n')
}

function wordFor(outcome: Change['outcome'], action: Action): string {
  if (outcome === 'applied') return done[action].toLowerCase()
  return outcome === 'possible' ? `would ${action}` : outcome
}
