import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import manifest from '../package.json' with { type: 'json' }
import { checkImportCycles, checkImportsResolve, checkImportTable, specifiersOf } from './tidy/imports.ts'
import { checkBuilt, checkDialects, checkDocumented, checkExports, checkNotInvented } from './tidy/promises.ts'
import {
  checkClock,
  checkFileLengths,
  checkFileNames,
  checkFunctionLengths,
  checkMachineNames,
  clockExceptions,
} from './tidy/shape.ts'
import { files, readFiles } from './tidy/source.ts'
import { checkSuites } from './tidy/suites.ts'

// The rules of the repository as tests. Each rule is a function over files; beside its run on the repository stands a
// bad example that it must find, so that no rule is dead.

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
const repository = readFiles(
  root,
  tracked
    .toString()
    .split('\0')
    .filter(path => path !== '' && existsSync(`${root}/${path}`)),
)

/** Where the dialects differ in more than words. */
const ownQueries = {
  sqlite: {
    reason:
      'One writer at a time: a statement per row costs a microsecond, and numbers come from a row instead of sequences.',
    names: [
      'finishDelivery',
      'hasKept',
      'insertKept',
      'markBehind',
      'selectDue',
      'selectKeptHash',
      'selectPurgeable',
      'selectWindow',
      'takeDelivery',
      'takeNumbers',
    ],
  },
  postgres: {
    reason:
      'Many writers and a round trip per statement: one statement for many rows, locks on rows and keys, a bell for sleepers.',
    names: [
      'acceptMessages',
      'adoptKept',
      'claimWindow',
      'countOlderTransactions',
      'delayDelivery',
      'finishDeliveries',
      'foldCounters',
      'lockDeliveries',
      'lockDeliveryRow',
      'lockIdentity',
      'lockKeys',
      'nextDeliveryId',
      'ringBell',
      'selectOpenCaseCode',
      'tryMaintenanceLock',
    ],
  },
}

describe('imports', () => {
  test('follow the table of folders', () => {
    expect(checkImportTable(repository)).toEqual([])
  })

  test.each([
    ['a leaf that imports the core', 'src/stores/postgres/store.ts', '../../runtime/runtime.ts'],
    ['a leaf that imports another leaf', 'src/transports/kafka.ts', './rabbitmq.ts'],
    ['a transport that imports the migrator', 'src/transports/kafka.ts', '../stores/migrator.ts'],
    ['a core that imports a leaf', 'src/runtime/runtime.ts', '../stores/sqlite/store.ts'],
    ['contracts that import something', 'src/contracts/store.ts', '../send/send.ts'],
    ['send that imports consume', 'src/send/relay.ts', '../consume/pipeline.ts'],
    ['public names that include a leaf', 'src/index.ts', './stores/sqlite/store.ts'],
    ['a folder that nobody planned', 'src/misc/things.ts', '../contracts/store.ts'],
  ])('%s is found', (_, path, target) => {
    expect(checkImportTable(files({ [path]: `import type { X } from '${target}'` }))).toHaveLength(1)
  })

  test.each([
    ['a SQL store and the migrator', 'src/stores/sqlite/store.ts', '../migrator.ts'],
    ['the memory store and SQLite', 'src/stores/memory.ts', './sqlite/store.ts'],
    ['a leaf and its own files', 'src/stores/sqlite/store.ts', './queries.ts'],
    ['consume and outcomes', 'src/consume/settle.ts', '../outcomes/retry.ts'],
  ])('%s may be joined', (_, path, target) => {
    expect(checkImportTable(files({ [path]: `import { x } from '${target}'` }))).toEqual([])
  })

  test('are seen in every form', () => {
    const text = `import a from './1.ts'; import type { B } from './2.ts'; export * from './3.ts'
      export { c } from './4.ts'; await import('./5.ts'); type D = import('./6.ts').D; import './7.ts'`
    const seen = ['1', '2', '3', '4', '5', '6', '7'].map(name => `./${name}.ts`)
    expect(specifiersOf('src/a.ts', text)).toEqual(seen)
  })

  const installed = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)]

  test('lead to files of src, Node and run-time dependencies', () => {
    expect(checkImportsResolve(repository, installed)).toEqual([])
  })

  test.each([
    ['a package that is only installed here', 'src/cli/main.ts', 'zod'],
    ['a file that is not there', 'src/cli/main.ts', './gone.ts'],
    ['a file outside src', 'src/cli/main.ts', '../../test/tidy/source.ts'],
    ['a driver in a leaf', 'src/stores/postgres/store.ts', 'pg'],
    ['anything in contracts', 'src/contracts/clock.ts', 'node:timers'],
  ])('%s is found', (_, path, specifier) => {
    expect(checkImportsResolve(files({ [path]: `import '${specifier}'` }), installed)).toHaveLength(1)
  })

  test('form no circle', () => {
    expect(checkImportCycles(repository)).toEqual([])
  })

  test('that form a circle of types are found', () => {
    const circle = files({
      'src/a/1.ts': `import type { B } from './2.ts'`,
      'src/a/2.ts': `export * from './3.ts'`,
      'src/a/3.ts': `type A = import('./1.ts').A`,
      'src/a/4.ts': `import './1.ts'`,
    })
    expect(checkImportCycles(circle)).toEqual(['src/a/1.ts → src/a/2.ts → src/a/3.ts → src/a/1.ts'])
  })
})

describe('shape', () => {
  test('files are short', () => {
    expect(checkFileLengths(repository)).toEqual([])
  })

  test('a long file is found', () => {
    const long = files({ 'src/a/long.ts': '\n'.repeat(401), 'src/a/fits.ts': '\n'.repeat(400) })
    expect(checkFileLengths(long)).toEqual(['src/a/long.ts: 401 lines, at most 400'])
  })

  test('functions fit a screen', () => {
    expect(checkFunctionLengths(repository)).toEqual([])
  })

  test.each([
    ['function', 'function f() {', '}'],
    ['arrow', 'const f = () => {', '}'],
    ['method', 'class A { f() {', '} }'],
    ['object member', 'const a = { async f() {', '} }'],
  ])('a long %s is found', (_, head, tail) => {
    const of = (lines: number) => files({ 'src/a.ts': `\n${head}${'\n'.repeat(lines - 1)}${tail}` })
    expect(checkFunctionLengths(of(60))).toEqual([])
    expect(checkFunctionLengths(of(61))).toEqual(['src/a.ts:2: a function of 61 lines, at most 60'])
  })

  test('file names say what is inside', () => {
    expect(checkFileNames(repository)).toEqual([])
  })

  test('a vague file name is found', () => {
    const vague = ['src/utils.ts', 'test/helpers/x.ts', 'src/send/types.ts', 'bench/common.test.ts']
    expect(checkFileNames(files(Object.fromEntries(vague.map(path => [path, '']))))).toHaveLength(4)
    expect(checkFileNames(files({ 'src/commonplace.ts': '', 'docs/common.md': '' }))).toEqual([])
  })
})

describe('clock and randomness', () => {
  test('come from the clock', () => {
    expect(checkClock(repository)).toEqual([])
  })

  test('the list of exceptions names files that exist and need it', () => {
    const stale = Object.keys(clockExceptions).filter(
      path => repository.has(path) && checkClock(files({ [path]: repository.get(path) ?? '' }), {}).length === 0,
    )
    expect(stale).toEqual([])
  })

  test.each([
    'Date.now()',
    'new Date()',
    'Math.random()',
    'performance.now()',
    'setTimeout(f, 1)',
    'setInterval(f, 1)',
    'const later = setTimeout',
    'run(setTimeout)',
    'globalThis.setTimeout(f, 1)',
    'AbortSignal.timeout(1)',
    `import { setTimeout } from 'node:timers/promises'`,
  ])('%s is found', code => {
    expect(checkClock(files({ 'src/a.ts': code }))).toHaveLength(1)
    expect(checkClock(files({ 'src/runtime/clock.ts': code }))).toEqual([])
  })

  test.each(['clock.setTimeout(f, 1)', 'new Date(clock.now())', '// Date.now()', `'Date.now()'`])(
    '%s is fine',
    code => {
      expect(checkClock(files({ 'src/a.ts': code }))).toEqual([])
    },
  )
})

describe('promises to users', () => {
  const exports = manifest.exports
  const at = (path: string) => repository.get(path) ?? ''

  test('the exports map equals the sources', () => {
    expect(checkExports(exports, repository)).toEqual([])
  })

  // CI builds first; a developer's dist may be old or missing.
  test.runIf(process.env.CI && repository.has('src/index.ts'))('the exports map equals what the build wrote', () => {
    const built = execFileSync('find', ['dist', '-type', 'f'], { cwd: root }).toString().split('\n')
    expect(checkBuilt(exports, built)).toEqual([])
  })

  test('a wrong exports map is found', () => {
    const map = {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      './gone': { types: './dist/gone.d.ts', default: './dist/gone.js' },
      './odd': { types: './dist/index.d.ts', default: './dist/odd.js' },
    }
    const source = files({ 'src/index.ts': '', 'src/odd.ts': '', 'src/stores/mysql/store.ts': '' })
    expect(checkExports(map, source)).toEqual([
      './gone: there is no src/gone.ts',
      './odd: types and code differ',
      './mysql: the leaf stores/mysql has no subpath',
    ])
    expect(checkBuilt({ '.': map['.'] }, ['dist/index.js'])).toEqual(['./dist/index.d.ts was not built'])
  })

  test('every error code is documented', async () => {
    const { errorCodes } = await import('../src/contracts/errors.ts')
    const names = Object.keys(errorCodes)
    expect(checkDocumented(names, 'docs/errors.md', at('docs/errors.md'))).toEqual([])
    expect(checkNotInvented(names, 'docs/errors.md', at('docs/errors.md'))).toEqual([])
    const differing = Object.entries(errorCodes).filter(([code, { retryable, hint }]) => {
      const row = at('docs/errors.md').match(new RegExp(`^\\| \`${code}\` .*$`, 'm'))?.[0]
      return !row?.endsWith(` | ${retryable ? 'yes' : 'no'} | ${hint} |`)
    })
    expect(differing, 'say something else on their page').toEqual([])
  })

  test('every event is documented', async () => {
    const { eventNames } = await import('../src/contracts/events.ts')
    expect(checkDocumented(eventNames, 'docs/events.md', at('docs/events.md'))).toEqual([])
    expect(checkNotInvented(eventNames, 'docs/events.md', at('docs/events.md'))).toEqual([])
  })

  test('a name without documentation, and documentation without a name, are found', () => {
    const page = '## `ONE`\n| `two` | text |\nTHREE in passing'
    expect(checkDocumented(['ONE', 'THREE'], 'page', page)).toEqual(['page: `THREE` is missing'])
    expect(checkNotInvented(['ONE', 'THREE'], 'page', page)).toEqual(['page: `two` does not exist'])
  })

  test('all SQL dialects name the same queries', () => {
    expect(checkDialects(repository, ['sqlite', 'postgres'], ownQueries)).toEqual([])
  })

  test('a query that one dialect lacks is found', () => {
    const uneven = files({
      'src/stores/sqlite/queries.ts': `export const claims = { take: '', drop: '' } as const; export const purge = ''`,
      'src/stores/sqlite/queries-books.ts': 'export function sum() {}',
      'src/stores/postgres/queries.ts': `export const claims = { take: '' }; const drop = ''; export const purge = ''`,
    })
    expect(checkDialects(uneven, ['sqlite', 'postgres'])).toEqual([
      'postgres lacks the query claims.drop',
      'postgres lacks the query sum',
    ])
  })
})

describe('machines', () => {
  test('no file names a path or a host of one machine', () => {
    expect(checkMachineNames(repository)).toEqual([])
  })

  // The bad examples are put together, or this file would be one.
  test.each([
    ['cd ', '/work', '/main'],
    ['"', '/root', '/.cache"'],
    ['', '/home', '/someone'],
    ['https://registry.', 'npmjs', '.org/zod'],
    ['https://', 'pypi', '.org/simple'],
  ])('%s%s%s is found', (...parts) => {
    expect(checkMachineNames(files({ 'docs/a.md': `\n${parts.join('')}` }))).toHaveLength(1)
  })

  test.each(['src/work/main', 'the / root / path', '~/work', 'https://example.org/home/x'])('%s is fine', text => {
    expect(checkMachineNames(files({ 'docs/a.md': text }))).toEqual([])
  })
})

describe('leaves', () => {
  test('are held to their contracts by the conformance suites', () => {
    expect(checkSuites(repository)).toEqual([])
  })

  test('that no suite runs on are found', () => {
    const uneven = files({
      'src/stores/migrator.ts': '',
      'src/stores/sqlite/store.ts': '',
      'src/stores/mysql/store.ts': '',
      'src/transports/kafka.ts': '',
      'test/stores/sqlite.test.ts': `import { sqlite } from '../../src/stores/sqlite/store.ts'; storeSuite({})`,
      'test/stores/mysql.test.ts': `import { mysql } from '../../src/stores/mysql/store.ts'; test('connects')`,
    })
    expect(checkSuites(uneven)).toEqual([
      'src/stores/mysql: no test runs storeSuite on it',
      'src/transports/kafka: no test runs transportSuite on it',
    ])
  })
})
