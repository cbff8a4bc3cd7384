import { posix } from 'node:path'
import { type Files, isNode, type Node, parse, sources, walk } from './source.ts'

// What each folder of src may import beside itself (docs: ARCHITECTURE.md, "layout").
const folders: Readonly<Record<string, readonly string[]>> = {
  contracts: [],
  send: ['contracts'],
  outcomes: ['contracts'],
  cases: ['contracts'],
  observe: ['contracts'],
  consume: ['contracts', 'outcomes'],
  runtime: ['contracts', 'send', 'outcomes', 'cases', 'observe', 'consume', 'stores/migrator'],
  cli: ['runtime', 'cases', 'observe', 'contracts'],
  console: ['runtime', 'cases', 'observe', 'contracts'],
  testing: ['runtime', 'cases', 'observe', 'contracts'],
}

const sqlStores = new Set(['stores/sqlite', 'stores/postgres', 'stores/mysql'])

const exceptions: Readonly<Record<string, { readonly imports: string; readonly reason: string }>> = {
  'stores/memory': { imports: 'stores/sqlite', reason: 'the in-memory store is the SQLite store on :memory:' },
}

/** Files that may do more than their folder, and why. */
const fileExceptions: Readonly<Record<string, { readonly imports: RegExp; readonly reason: string }>> = {
  'src/cli/open-store.ts': {
    imports: /^stores\/(sqlite|postgres)$/,
    reason: 'an operator names a store by its address: the command line loads the leaf, here and nowhere else',
  },
}

/** The unit that the table speaks of: a folder of src, or one leaf of transports or stores, or src/index.ts. */
export function unitOf(path: string): string {
  const [, first = '', second = ''] = path.split('/')
  if (first === 'transports' || first === 'stores') return `${first}/${second.replace(/\.ts$/, '')}`
  return first === 'index.ts' ? 'index' : first
}

export function isLeaf(unit: string): boolean {
  return /^(transports|stores)\//.test(unit) && unit !== 'stores/migrator'
}

function mayImport(from: string, to: string): boolean {
  if (from === to) return true
  if (from === 'index') return !isLeaf(to)
  if (exceptions[from]?.imports === to) return true
  if (isLeaf(from)) return to === 'contracts' || (to === 'stores/migrator' && sqlStores.has(from))
  if (from === 'stores/migrator') return to === 'contracts'
  return folders[from]?.includes(to) ?? false
}

/** Imports across folders that the table forbids, and folders that it does not know. */
export function checkImportTable(all: Files): string[] {
  const faults: string[] = []
  for (const [path, targets] of importGraph(all)) {
    const from = unitOf(path)
    if (from !== 'index' && from !== 'stores/migrator' && !isLeaf(from) && !folders[from]) {
      faults.push(`${path}: the folder ${from} is not in the table of folders`)
      continue
    }
    for (const target of targets) {
      const to = unitOf(target)
      if (!mayImport(from, to) && !fileExceptions[path]?.imports.test(to))
        faults.push(`${path}: ${from} may not import ${to} (${target})`)
    }
  }
  return faults
}

/**
 * Relative imports that lead nowhere or out of src, and packages that whoever installs ichido would not have. Contracts
 * import nothing, and leaves get their driver from the user: both name no package at all.
 */
export function checkImportsResolve(all: Files, dependencies: readonly string[]): string[] {
  const faults: string[] = []
  for (const [path, text] of sources(all)) {
    const unit = unitOf(path)
    for (const specifier of specifiersOf(path, text)) {
      if (specifier.startsWith('.')) {
        const target = resolve(path, specifier)
        const isData = target === 'package.json' || target.endsWith('.sql')
        if (!isData && !sources(all).has(target)) faults.push(`${path}: ${specifier} is not a file of src`)
      } else if (unit === 'contracts') {
        faults.push(`${path}: contracts import nothing, not even ${specifier}`)
      } else if (!specifier.startsWith('node:')) {
        const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
        if (isLeaf(unit)) faults.push(`${path}: a leaf is handed its driver, it does not import ${name}`)
        else if (!dependencies.includes(name)) faults.push(`${path}: ${name} is not a run-time dependency`)
      }
    }
  }
  return faults
}

/** Circles of imports, type imports included: each as its files in a row. */
export function checkImportCycles(all: Files): string[] {
  const graph = importGraph(all)
  const done = new Set<string>()
  const trail: string[] = []
  const faults: string[] = []
  const visit = (path: string): void => {
    const at = trail.indexOf(path)
    if (at >= 0) faults.push([...trail.slice(at), path].join(' → '))
    if (at >= 0 || done.has(path)) return
    trail.push(path)
    for (const target of graph.get(path) ?? []) visit(target)
    trail.pop()
    done.add(path)
  }
  for (const path of graph.keys()) visit(path)
  return faults
}

function importGraph(all: Files): Map<string, string[]> {
  const graph = new Map<string, string[]>()
  for (const [path, text] of sources(all)) {
    const relative = specifiersOf(path, text).filter(specifier => specifier.startsWith('.'))
    graph.set(
      path,
      relative.map(specifier => resolve(path, specifier)).filter(target => target.startsWith('src/')),
    )
  }
  return graph
}

function resolve(path: string, specifier: string): string {
  return posix.normalize(posix.join(posix.dirname(path), specifier))
}

/** Every module that a file names: import, export from, import(), and import types. */
export function specifiersOf(path: string, text: string): string[] {
  const found = new Set<string>()
  walk(parse(path, text).program, node => {
    const source = importedBy(node)
    if (isNode(source) && typeof source.value === 'string') found.add(source.value)
  })
  return [...found]
}

function importedBy(node: Node): unknown {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
    case 'ImportExpression':
    case 'TSImportType':
      return node.source ?? node.argument
    default:
      return undefined
  }
}
