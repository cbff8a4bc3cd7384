import { posix } from 'node:path'
import { type Files, within } from './source.ts'

const suites = { stores: 'storeSuite', transports: 'transportSuite' } as const

/** Leaves of stores and transports that no test holds to their contract. A leaf is a file or a folder; `migrator.ts` is none. */
export function checkSuites(all: Files): string[] {
  const tests = [...within(all, 'test').keys()].filter(path => path.endsWith('.test.ts'))
  return Object.entries(suites).flatMap(([folder, suite]) => {
    const leaves = [...within(all, `src/${folder}`).keys()].flatMap(path => leafOf(path))
    const held = tests
      .filter(path => new RegExp(`\\b${suite}\\(`).test(all.get(path) ?? ''))
      .flatMap(path => [path, ...importsOf(all, path)].flatMap(each => importsOf(all, each)))
    return [...new Set(leaves)].flatMap(leaf => {
      const root = `src/${folder}/${leaf}`
      if (held.some(path => path === `${root}.ts` || path.startsWith(`${root}/`))) return []
      return [`${root}: no test runs ${suite} on it`]
    })
  })
}

/** A test names its leaf itself, or has it from its fixture. */
function importsOf(all: Files, path: string): string[] {
  const specifiers = (all.get(path) ?? '').matchAll(/from '(\.[^']*)'/g)
  return [...specifiers].map(([, specifier = '']) => posix.join(posix.dirname(path), specifier))
}

function leafOf(path: string): string[] {
  const leaf = path.split('/')[2]?.replace(/\.ts$/, '') ?? ''
  return leaf === 'migrator' ? [] : [leaf]
}
