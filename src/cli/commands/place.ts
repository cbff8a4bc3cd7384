import { type Command, Option } from 'commander'

export interface PlaceOptions {
  readonly store?: string
  readonly config?: string
  readonly json?: boolean
}

export const configOption = () =>
  new Option('--config <file>', 'the configuration of the project (default: ./ichido.config.ts, .js or .mjs)')

export const jsonOption = () => new Option('--json', 'print JSON for programs')

/** The options of every command that looks into a store. */
export function withPlace(command: Command): Command {
  return command
    .addOption(
      new Option('--store <url>', 'sqlite:PATH or postgres://…; needs no checkout of the project').conflicts('config'),
    )
    .addOption(configOption())
    .addOption(jsonOption())
}

export function withExamples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${lines.map(line => `  $ ichido ${line}`).join('\n')}`)
}
