import { type Files, within } from './source.ts'

const suites = { stores: 'storeSuite', transports: 'transportSuite' } as const

/** Leaves of stores and transports that no test holds to their contract. A leaf is a file or a folder; `migrator.ts` is none. */
export function checkSuites(all: Files): string[] {
  const tests = [...within(all, 'test')].filter(([path]) => path.endsWith('.test.ts'))
  return Object.entries(suites).flatMap(([folder, suite]) => {
    const leaves = [...within(all, `src/${folder}`).keys()].flatMap(path => leafOf(path))
    return [...new Set(leaves)].flatMap(leaf => {
      const imported = new RegExp(`from '(\\.\\./)+src/${folder}/${leaf}(\\.ts|/[^']*)'`)
      const called = new RegExp(`\\b${suite}\\(`)
      const held = tests.some(([, text]) => imported.test(text) && called.test(text))
      return held ? [] : [`src/${folder}/${leaf}: no test runs ${suite} on it`]
    })
  })
}

function leafOf(path: string): string[] {
  const leaf = path.split('/')[2]?.replace(/\.ts$/, '') ?? ''
  return leaf === 'migrator' ? [] : [leaf]
}
