import { isLeaf, unitOf } from './imports.ts'
import { type Files, isNode, type Node, parse, sources } from './source.ts'

/** Names that the text does not show as code: `NAME` in backticks, so that a mention in passing does not count. */
export function checkDocumented(names: readonly string[], docsPath: string, docs: string): string[] {
  return names.filter(name => !docs.includes(`\`${name}\``)).map(name => `${docsPath}: \`${name}\` is missing`)
}

/** Names that a page heads a section or a table row with, but that the code does not have (any more). */
export function checkNotInvented(names: readonly string[], docsPath: string, docs: string): string[] {
  const headed = [...docs.matchAll(/^(?:#{2,4} |\| )`([A-Za-z_]+)`/gm)].map(match => match[1] ?? '')
  return headed.filter(name => !names.includes(name)).map(name => `${docsPath}: \`${name}\` does not exist`)
}

interface Target {
  readonly types: string
  readonly default: string
}

/** The exports map against the sources: each target has its source, and each leaf and the test kit has its subpath. */
export function checkExports(exports: Readonly<Record<string, Target>>, all: Files): string[] {
  const source = sources(all)
  const faults: string[] = []
  for (const [subpath, target] of Object.entries(exports)) {
    const path = target.default.replace(/^\.\/dist\/(.+)\.js$/, 'src/$1.ts')
    if (!source.has(path)) faults.push(`${subpath}: there is no ${path}`)
    if (target.types !== target.default.replace(/\.js$/, '.d.ts')) faults.push(`${subpath}: types and code differ`)
    if (Object.keys(target)[0] !== 'types') faults.push(`${subpath}: "types" must come first`)
  }
  const leaves = new Set([...source.keys()].map(unitOf).filter(isLeaf))
  for (const leaf of leaves) {
    const subpath = `./${leaf.split('/')[1]}`
    if (!exports[subpath]) faults.push(`${subpath}: the leaf ${leaf} has no subpath`)
  }
  return faults
}

/** The exports map against the files that a build wrote. */
export function checkBuilt(exports: Readonly<Record<string, Target>>, built: readonly string[]): string[] {
  const targets = Object.values(exports).flatMap(target => [target.types, target.default])
  return targets.filter(target => !built.includes(target.replace('./', ''))).map(target => `${target} was not built`)
}

/** Queries that only one dialect has, and why the other does without them. */
export interface Deviation {
  readonly reason: string
  readonly names: readonly string[]
}

/** SQL dialects name the same queries: what one has and another lacks, unless it is declared. A stale declaration is a fault too. */
export function checkDialects(
  all: Files,
  dialects: readonly string[],
  declared: Readonly<Record<string, Deviation>> = {},
): string[] {
  const queries = dialects.map(dialect => [dialect, queryNames(all, dialect)] as const)
  const every = new Set(queries.flatMap(([, names]) => [...names]))
  const own = new Set(Object.values(declared).flatMap(({ names }) => names))
  const lacking = queries.flatMap(([dialect, names]) =>
    [...every].filter(name => !names.has(name)).map(name => ({ name, fault: `${dialect} lacks the query ${name}` })),
  )
  const stale = [...own].filter(name => !lacking.some(fault => fault.name === name))
  return [
    ...lacking.filter(({ name }) => !own.has(name)).map(({ fault }) => fault),
    ...stale.map(name => `${name} is declared for one dialect only, and is not`),
  ]
}

/** `take` for each exported name, and `claims.take` for each key of an exported object, whatever file it is in. */
function queryNames(all: Files, dialect: string): Set<string> {
  const folder = `src/stores/${dialect}/`
  const names = new Set<string>()
  for (const [path, text] of sources(all)) {
    if (!path.startsWith(folder) || !/^queries[^/]*(\/.*)?\.ts$/.test(path.slice(folder.length))) continue
    for (const name of exportedNames(parse(path, text).program)) names.add(name)
  }
  return names
}

function exportedNames(program: Node): string[] {
  return (program.body as Node[]).flatMap(statement => {
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : undefined
    if (!isNode(declaration)) return []
    if (declaration.type === 'FunctionDeclaration') return [identifier(declaration.id)]
    if (declaration.type !== 'VariableDeclaration') return []
    return (declaration.declarations as Node[]).flatMap(each => {
      const name = identifier(each.id)
      const keys = objectKeys(each.init)
      return keys ? keys.map(key => `${name}.${key}`) : [name]
    })
  })
}

function objectKeys(value: unknown): string[] | undefined {
  if (!isNode(value)) return undefined
  if (value.type === 'TSAsExpression' || value.type === 'TSSatisfiesExpression') return objectKeys(value.expression)
  if (value.type !== 'ObjectExpression') return undefined
  return (value.properties as Node[]).flatMap(property => (isNode(property.key) ? [identifier(property.key)] : []))
}

function identifier(node: unknown): string {
  return isNode(node) ? String(node.name ?? node.value) : ''
}
