import { readFileSync, statSync } from 'node:fs'
import type { Finding } from '../../contracts/ledger.ts'
import type { Connection } from './connection.ts'

const networkFileSystems = new Set([
  'nfs',
  'nfs4',
  'cifs',
  'smb3',
  'smbfs',
  '9p',
  'afs',
  'fuse.sshfs',
  'ceph',
  'glusterfs',
  'fuse.glusterfs',
])

export function diagnose(path: string, connection: Connection): Finding[] {
  const findings: Finding[] = [
    ok('SQLite', process.versions.sqlite ?? 'unknown', null),
    expect(
      connection,
      'journal_mode',
      path === ':memory:' ? 'memory' : 'wal',
      'critical',
      'Another mode lets readers block writers.',
    ),
    expect(connection, 'synchronous', '2', 'critical', 'Less than FULL can lose confirmed sends when the power fails.'),
  ]
  if (path === ':memory:') {
    findings.push({
      name: 'durability',
      value: 'none',
      level: 'warning',
      note: 'Everything is gone when the process ends.',
    })
    return findings
  }
  return [...findings, fileSystem(path), permissions(path), walSize(path), pausedOwner]
}

const pausedOwner: Finding = {
  name: 'fencing',
  value: 'by epoch',
  level: 'ok',
  note: 'A process that is paused while it holds the write lock stops all writers until it goes on or dies.',
}

function ok(name: string, value: string, note: string | null): Finding {
  return { name, value, level: 'ok', note }
}

function expect(
  connection: Connection,
  pragma: string,
  wanted: string,
  level: 'warning' | 'critical',
  why: string,
): Finding {
  const value = String(Object.values(connection.get<Record<string, unknown>>(`pragma ${pragma}`) ?? {})[0])
  return value === wanted ? ok(pragma, value, null) : { name: pragma, value, level, note: why }
}

function fileSystem(path: string): Finding {
  const type = fileSystemType(path)
  if (!networkFileSystems.has(type)) return ok('file system', type, null)
  return {
    name: 'file system',
    value: type,
    level: 'critical',
    note: 'SQLite in WAL mode needs a local disk: move the file.',
  }
}

/** The type of the deepest mount that holds the path. */
function fileSystemType(path: string): string {
  try {
    const mounts = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map(line => line.split(' '))
    const holding = mounts.filter(
      ([, point]) => point && (path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`)),
    )
    return holding.sort((a, b) => (b[1] as string).length - (a[1] as string).length)[0]?.[2] ?? 'unknown'
  } catch {
    return 'unknown'
  }
}

function permissions(path: string): Finding {
  const mode = statSync(path).mode & 0o777
  const value = `0${mode.toString(8)}`
  if ((mode & 0o004) === 0) return ok('file mode', value, null)
  return {
    name: 'file mode',
    value,
    level: 'warning',
    note: 'Every user of this machine can read the payloads: chmod o-rwx the file and its -wal.',
  }
}

const LARGE_WAL_BYTES = 256 * 1024 * 1024

function walSize(path: string): Finding {
  const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  const value = `${bytes} bytes`
  if (bytes < LARGE_WAL_BYTES) return ok('WAL', value, null)
  return {
    name: 'WAL',
    value,
    level: 'warning',
    note: 'A reader that never ends keeps the WAL from being folded: look for a long transaction.',
  }
}
