import { execFile, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const bin = fileURLToPath(new URL('../../bin/ichido.js', import.meta.url))
const shop = new URL('./shop.ts', import.meta.url)

interface Answer {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** A folder of an operator: a configuration, a database beside it, and `ichido` on the path. */
export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), 'ichido-cli-'))
  readonly database = join(this.folder, 'shop.db')
  readonly address = `sqlite:${this.database}`

  constructor() {
    const config = `import { defineShop } from ${JSON.stringify(shop.href)}\nexport default defineShop('shop.db')\n`
    writeFileSync(join(this.folder, 'ichido.config.mjs'), config)
    const command = join(this.folder, 'ichido')
    writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${bin}" "$@"\n`)
    chmodSync(command, 0o700)
  }

  /** No colour is asked for and none is forbidden: a pipe gets none by itself, whatever runs the tests. */
  environment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
    const { NO_COLOR: _, FORCE_COLOR: __, ...inherited } = process.env
    return { ...inherited, CI: 'true', PATH: `${this.folder}${delimiter}${process.env.PATH}`, ...extra }
  }

  ichido(...args: string[]): Promise<Answer> {
    return this.#execute(process.execPath, [bin, ...args], this.environment())
  }

  with(extra: Readonly<Record<string, string>>, ...args: string[]): Promise<Answer> {
    return this.#execute(process.execPath, [bin, ...args], this.environment(extra))
  }

  shell(line: string, extra: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return this.#execute('sh', ['-c', line], this.environment(extra))
  }

  async json(...args: string[]): Promise<never> {
    return JSON.parse((await this.ichido(...args, '--json')).out) as never
  }

  /** Starts a command whose output is read while it runs. */
  start(...args: string[]) {
    const child = spawn(process.execPath, [bin, ...args], { cwd: this.folder, env: this.environment() })
    let text = ''
    child.stdout.on('data', chunk => {
      text += chunk
    })
    const ended = new Promise<number | null>(resolve => child.on('close', resolve))
    const seen = (pattern: RegExp) =>
      new Promise<void>((resolve, reject) => {
        const look = () => pattern.test(text) && resolve()
        child.stdout.on('data', look)
        ended.then(() => reject(new Error(`it ended without ${pattern}: ${text}`)))
        look()
      })
    return { child, ended, seen, output: () => text }
  }

  /** A consumer that naps for a minute in `prepare` and hears no signal. */
  slowConfig(): string {
    const path = join(this.folder, 'slow.config.mjs')
    const source = (file: string) => JSON.stringify(new URL(`../../src/${file}`, import.meta.url).href)
    writeFileSync(
      path,
      `import { defineConsumer, defineIchido, defineMessage } from ${source('index.ts')}
       import { sqlite } from ${source('stores/sqlite/store.ts')}
       const store = sqlite('slow.db')
       const schema = { '~standard': { version: 1, vendor: 'own', validate: value => ({ value }) } }
       const nap = defineMessage({ type: 'nap', schema })
       const sleeper = defineConsumer({ store, name: 'sleeper', messages: [nap], timeoutMs: 60_000, handle() {},
         prepare({ log }) { log.info('napping'); return new Promise(resolve => setTimeout(resolve, 60_000)) } })
       export default defineIchido({ store, consumers: [sleeper], pollMs: 20 })`,
    )
    return path
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  #execute(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Answer> {
    return new Promise(resolve => {
      execFile(program, args, { cwd: this.folder, env }, (error, out, err) => {
        resolve({ code: error ? Number(error.code) : 0, out, err })
      })
    })
  }
}

/** A module that hides an installed package from whoever loads it with `--import`. */
export function withoutPackage(folder: string, name: string): string {
  const path = join(folder, `without-${name}.mjs`)
  const missing = `Object.assign(new Error('not installed'), { code: 'ERR_MODULE_NOT_FOUND' })`
  writeFileSync(
    path,
    `import { registerHooks } from 'node:module'
     registerHooks({ resolve(specifier, context, next) {
       if (specifier === ${JSON.stringify(name)} || specifier.startsWith(${JSON.stringify(`${name}/`)})) throw ${missing}
       return next(specifier, context)
     } })`,
  )
  return pathToFileURL(path).href
}
