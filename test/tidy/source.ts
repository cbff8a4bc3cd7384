import { readFileSync } from 'node:fs'
import { type Comment, parseSync } from 'oxc-parser'

/** Files by their path inside the repository, so that a check runs on an example as well as on the repository. */
export type Files = ReadonlyMap<string, string>

export function files(entries: Record<string, string>): Files {
  return new Map(Object.entries(entries))
}

/** The text files among `paths`; binary files have no lines to judge. */
export function readFiles(root: string, paths: readonly string[]): Files {
  const texts = paths.map(path => [path, readFileSync(`${root}/${path}`, 'utf8')] as const)
  return new Map(texts.filter(([, text]) => !text.includes('\0')))
}

export function within(all: Files, folder: string): Files {
  return new Map([...all].filter(([path]) => path.startsWith(`${folder}/`)))
}

export function sources(all: Files): Files {
  return new Map([...within(all, 'src')].filter(([path]) => path.endsWith('.ts')))
}

/** A syntax node: only what every node has. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [member: string]: unknown
}

export interface Parsed {
  readonly program: Node
  readonly comments: readonly Comment[]
}

export function parse(path: string, text: string): Parsed {
  const result = parseSync(path, text)
  if (result.errors.length > 0) throw new Error(`${path} does not parse: ${result.errors[0]?.message}`)
  return { program: result.program as unknown as Node, comments: result.comments }
}

/** Calls `visit` for a node and everything below it, parents first. */
export function walk(node: Node, visit: (node: Node, parent: Node | undefined) => void, parent?: Node): void {
  visit(node, parent)
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child, visit, node)
  }
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string'
}

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}
