import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { addBooks } from './commands/books.ts'
import { addDead } from './commands/dead.ts'
import { addDoctor } from './commands/doctor.ts'
import { addMigrate } from './commands/migrate.ts'
import { addRun } from './commands/run.ts'
import { addSend } from './commands/send.ts'
import { addStatus } from './commands/status.ts'
import { addTrace } from './commands/trace.ts'
import { allowClosedPipes, endProcess, exitCodes } from './exit.ts'
import { explain } from './output.ts'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

const examples = `
Examples:
  $ ichido migrate                               create or update ichido's tables
  $ ichido run                                   run the consumers of ./ichido.config.ts
  $ ichido status --store sqlite:data/app.db     what waits, what runs, what is dead
  $ ichido trace order-17                        every attempt of one message
  $ ichido dead redrive order-17 --reason "fixed in v2" --apply

Exit codes: 0 ok, 1 warning, 2 critical or error.`

/** Builds the command line. Every command sets \`process.exitCode\`; commander's own errors exit with 2. */
function createProgram(): Command {
  const program = new Command('ichido')
    .description('Reliable messaging: look at it, run it, mend it.')
    .version(version)
    .showSuggestionAfterError(true)
    .showHelpAfterError('Add --help to see how it is used.')
    .addHelpText('after', examples)
  for (const add of [addMigrate, addRun, addSend, addStatus, addBooks, addTrace, addDead]) add(program)
  addDoctor(program, version)
  for (const command of [program, ...program.commands, ...program.commands.flatMap(each => each.commands)]) {
    command.exitOverride(error => {
      process.exitCode = error.exitCode === 0 ? 0 : exitCodes.critical
      throw error
    })
  }
  return program
}

async function main(): Promise<never> {
  allowClosedPipes()
  try {
    await createProgram().parseAsync()
  } catch (error) {
    // Commander has printed its own message already.
    if (!(error as { code?: string }).code?.startsWith('commander.')) {
      process.stderr.write(`${explain(error, process.argv.includes('--json'))}\n`)
      process.exitCode = exitCodes.critical
    }
  }
  return endProcess()
}

await main()
