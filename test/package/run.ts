// Tests what npm would publish, as somebody who installs it: packs the package, installs the tarball in an empty folder,
// imports every subpath, runs the bin, and type-checks and runs a small program (consumer/program.ts) against it.
// Needs a build. Run: node test/package/run.ts
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import manifest from '../../package.json' with { type: 'json' }

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const folder = mkdtempSync(join(tmpdir(), 'ichido-package-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

const packed = pack()
checkContents(packed.files)
install(join(folder, packed.filename))
importEverySubpath()
runBin()
runProgram()
console.log('the packed package works')

function pack(): { filename: string; files: string[] } {
  const output = run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], root)
  const report: unknown = JSON.parse(output)
  // npm 11 answers with a list, npm 12 with an object keyed by the package's name.
  const [entry] = Object.values(report as Record<string, { filename: string; files: { path: string }[] }>)
  if (!entry) fail('npm pack names no package')
  return { filename: entry.filename, files: entry.files.map(file => file.path) }
}

function checkContents(packed: readonly string[]): void {
  const strangers = packed.filter(
    path => !/^(dist|bin)\/|^(package\.json|README\.md|CHANGELOG\.md|LICENSE)$/.test(path),
  )
  if (strangers.length > 0) fail(`the package contains ${strangers.join(', ')}`)
  const migrations = globSync('src/**/*.sql', { cwd: root }).map(path => path.replace(/^src/, 'dist'))
  const missing = ['LICENSE', 'bin/ichido.js', ...migrations].filter(path => !packed.includes(path))
  if (missing.length > 0) fail(`the package lacks ${missing.join(', ')}`)
  console.log(`packed ${packed.length} files`)
}

function install(tarball: string): void {
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }))
  const { zod, pg, typescript, '@types/pg': pgTypes, '@types/node': nodeTypes } = manifest.devDependencies
  const beside = [
    `zod@${zod}`,
    `pg@${pg}`,
    `typescript@${typescript}`,
    `@types/pg@${pgTypes}`,
    `@types/node@${nodeTypes}`,
  ]
  run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', tarball, ...beside], folder)
}

function importEverySubpath(): void {
  for (const subpath of Object.keys(manifest.exports)) {
    const name = subpath.replace(/^\./, manifest.name)
    const script = `const names = Object.keys(await import('${name}')); if (names.length === 0) throw new Error('no exports'); console.log('${name}:', names.length, 'names')`
    process.stdout.write(run(process.execPath, ['--input-type=module', '--eval', script], folder))
  }
}

function runBin(): void {
  const version = run(join(folder, 'node_modules', '.bin', 'ichido'), ['--version'], folder).trim()
  if (version !== manifest.version) fail(`ichido --version prints "${version}", not ${manifest.version}`)
  console.log(`ichido --version: ${version}`)
}

function runProgram(): void {
  cpSync(join(root, 'test', 'package', 'consumer'), folder, { recursive: true })
  // Not skipLibCheck: the declarations of the package themselves must be sound for whoever checks them.
  run(process.execPath, [join('node_modules', 'typescript', 'bin', 'tsc'), '--project', 'tsconfig.json'], folder)
  process.stdout.write(run(process.execPath, ['program.ts'], folder))
}

function run(command: string, args: readonly string[], cwd: string): string {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` }
  const result = spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: 120_000 })
  if (result.status === 0) return result.stdout
  return fail(`${command} ${args.join(' ')}\n${result.error?.message ?? ''}${result.stdout}${result.stderr}`)
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
