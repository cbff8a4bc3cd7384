import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { IchidoError, isIchidoError } from '../contracts/errors.ts'
import type { IchidoConfig } from '../runtime/config.ts'

const names = ['ichido.config.ts', 'ichido.config.js', 'ichido.config.mjs']

/** The configuration of the project: `--config`, or one of the usual names in this folder. */
export async function loadConfig(given: string | undefined): Promise<IchidoConfig> {
  const path = given ? resolve(given) : names.map(name => resolve(name)).find(candidate => existsSync(candidate))
  if (!path || !existsSync(path)) {
    const hint = 'Give --config PATH, or --store sqlite:PATH or postgres://… where a command takes it.'
    const text = given ? `There is no file ${given}.` : 'There is no ichido.config.ts in this folder.'
    throw new IchidoError('INVALID_CONFIG', text, { hint })
  }
  const { default: config } = await importConfig(path)
  if (!config?.options?.store) {
    const hint = 'Write `export default defineIchido({ … })`.'
    throw new IchidoError('INVALID_CONFIG', `${path} has no default export made by defineIchido.`, { hint })
  }
  return config
}

async function importConfig(path: string): Promise<{ default?: IchidoConfig }> {
  try {
    return (await import(pathToFileURL(path).href)) as { default?: IchidoConfig }
  } catch (error) {
    if (isIchidoError(error)) throw error
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    const hint = 'Mend the file, or look at its error with `node --check`.'
    throw new IchidoError('INVALID_CONFIG', `${path} cannot be loaded: ${text}`, { cause: error, hint })
  }
}
