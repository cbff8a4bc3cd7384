import type { Command } from 'commander'
import type { Action } from '../../cases/reprocess.ts'
import { type ChangeOptions, changeLetters } from './dead-change.ts'
import { listLetters, showLetters } from './dead-look.ts'
import { withExamples, withPlace } from './place.ts'

const changes: Readonly<Record<Action, { readonly what: string; readonly example: string }>> = {
  redrive: {
    what: 'put dead letters through again, with their ids and their places in the order',
    example: 'dead redrive order-17 --reason "mended in v2"',
  },
  discard: {
    what: 'close dead letters for good; their followers go on',
    example: 'dead discard order-17 --reason "cancelled, see ticket 4711"',
  },
  unblock: {
    what: 'let the followers go on and keep the dead letters',
    example: 'dead unblock order-17 --reason "later updates do not depend on it"',
  },
}

export function addDead(program: Command): void {
  const dead = program.command('dead').description('dead letters: look at them, put them through again, let them go')
  const list = withPlace(
    dead.command('list').description('the open dead letters, oldest first; exits 1 when there are any'),
  )
    .option('--consumer <name>', 'of this consumer only')
    .option('--code <code>', 'with this error code only')
    .option('--limit <n>', 'how many at most', '100')
  withExamples(list, 'dead list', 'dead list --consumer billing --code NO_ACCOUNT --store sqlite:data/app.db').action(
    listLetters,
  )
  const show = withPlace(dead.command('show').description('one dead letter: what failed, why, what is certain'))
    .argument('<id>', 'the id of the message')
    .option('--consumer <name>', 'of this consumer only')
    .option('--payload', 'print headers and body too')
  withExamples(show, 'dead show order-17', 'dead show order-17 --payload --json').action(showLetters)
  for (const action of Object.keys(changes) as Action[]) {
    const { what, example } = changes[action]
    const change = withPlace(dead.command(action).description(`${what}; a dry run unless --apply`))
      .argument('[ids...]', 'the ids of the messages')
      .option('--all', 'every dead letter of --consumer')
      .option('--consumer <name>', 'of this consumer only')
      .option('--code <code>', 'with this error code only')
      .option('--reason <text>', 'why; written to the audit')
      .option('--actor <name>', 'who (default: the user of this system); written to the audit')
      .option('--apply', 'do it')
    withExamples(change, example, `${example} --apply`, `dead ${action} --all --consumer billing --reason "…"`).action(
      (ids: string[], options: ChangeOptions) => changeLetters(action, ids, options),
    )
  }
}
