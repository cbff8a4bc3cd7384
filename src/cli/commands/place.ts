import type { Command } from 'commander'

export interface PlaceOptions {
  readonly store?: string
  readonly config?: string
  readonly json?: boolean
}

/** The options of every command that looks into a store. */
export function withPlace(command: Command): Command {
  return command
    .option('--store <url>', 'sqlite:PATH or postgres://…; needs no checkout of the project')
    .option('--config <file>', 'the configuration (default: ./ichido.config.ts)')
    .option('--json', 'print JSON for programs')
}
