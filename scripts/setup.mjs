// Makes a fresh clone ready, then runs a script under the pinned Node:
//
//   node scripts/setup.mjs [--no-install] [script [arguments…]]
//
// Runs on Node 20 and on plain JavaScript, because it runs before anything is installed. It installs what
// package-lock.json names when it is not there yet, and hands over to the Node 24 that the dev dependency `node` brings.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const argv = process.argv.slice(2)
const mayInstall = argv[0] !== '--no-install'
if (!mayInstall) argv.shift()

if (mayInstall && !isInstalled()) install()
if (argv.length > 0) run(pinnedNode(), argv)

/** Compares what is installed with the lock file, by content: time stamps differ between clones, pulls and npm versions. */
function isInstalled() {
  const installed = readLock(join(root, 'node_modules', '.package-lock.json'))
  const wanted = readLock(join(root, 'package-lock.json'))
  if (!installed || !wanted) return false
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true
    const present = installed[path]
    return present ? present.version === entry.version : entry.optional === true || entry.devOptional === true
  })
}

function readLock(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages
  } catch {
    return undefined
  }
}

function install() {
  console.error('ichido: installing the packages that package-lock.json names (the first time, or after it changed) …')
  // npm names its own entry file to the scripts it runs, so the same npm installs, wherever it lives.
  const npm = process.env.npm_execpath
  // `error` keeps npm from warning that the system's Node is older than the one it is about to install.
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
  const result = npm?.endsWith('.js')
    ? spawnSync(process.execPath, [npm, ...args], { cwd: root, stdio: 'inherit' })
    : spawnSync('npm', args, { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' })
  if (result.status !== 0) {
    console.error('ichido: the installation failed. Run `npm ci` to see why.')
    process.exit(result.status ?? 1)
  }
}

function pinnedNode() {
  const binary = join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
  if (existsSync(binary)) return binary
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath
  console.error(
    'ichido: node_modules has no Node 24. Run `npm ci` with install scripts allowed, or use Node 24 or newer.',
  )
  process.exit(1)
}

function run(node, args) {
  const path = [join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter)
  const child = spawn(node, args, { stdio: 'inherit', env: { ...process.env, PATH: path } })
  // A terminal sends its signals to both; one that was sent to this process alone is passed on. Either way the child
  // decides when it is done.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (!process.stdin.isTTY || signal !== 'SIGINT') child.kill(signal)
    })
  }
  child.on('error', error => {
    console.error(`ichido: ${node} does not start: ${error.message}`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
}
