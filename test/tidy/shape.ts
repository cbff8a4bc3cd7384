import { type Files, isNode, lineAt, type Node, parse, sources, walk } from './source.ts'

const MAX_FILE_LINES = 400
const MAX_FUNCTION_LINES = 60

export function checkFileLengths(all: Files): string[] {
  return [...sources(all)].flatMap(([path, text]) => {
    const lines = text.replace(/\n$/, '').split('\n').length
    return lines > MAX_FILE_LINES ? [`${path}: ${lines} lines, at most ${MAX_FILE_LINES}`] : []
  })
}

export function checkFunctionLengths(all: Files): string[] {
  const faults: string[] = []
  for (const [path, text] of sources(all)) {
    walk(parse(path, text).program, node => {
      if (!/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) return
      const first = lineAt(text, node.start)
      const lines = lineAt(text, node.end) - first + 1
      if (lines > MAX_FUNCTION_LINES) {
        faults.push(`${path}:${first}: a function of ${lines} lines, at most ${MAX_FUNCTION_LINES}`)
      }
    })
  }
  return faults
}

const vagueNames = /^(utils?|helpers?|common|types?)$/

/** Files and folders whose name says nothing; circles of imports start there. */
export function checkFileNames(all: Files): string[] {
  const code = [...all.keys()].filter(path => /^(src|test|bench|examples|scripts)\//.test(path))
  return code.flatMap(path => {
    const vague = path.split('/').find(part => vagueNames.test(part.split('.')[0] ?? ''))
    return vague ? [`${path}: "${vague}" says nothing about what is in it`] : []
  })
}

/** Where the real clock or real randomness may be touched outside src/runtime/clock.ts, and why. */
export const clockExceptions: Readonly<Record<string, string>> = {
  'src/runtime/clock.ts': 'the system clock itself',
  'src/stores/sqlite/heartbeat-thread.ts':
    'beats in a thread of its own, which a clock of the main thread cannot reach',
  'src/stores/postgres/heartbeat-thread.ts':
    'beats in a thread of its own, which a clock of the main thread cannot reach',
  'src/stores/sqlite/writer.ts':
    'one immediate per transaction notices that a macrotask had its turn; it measures no time',
}

const timers = new Set(['setTimeout', 'setInterval', 'setImmediate'])
const clockMembers = new Set(['Date.now', 'Math.random', 'performance.now', 'AbortSignal.timeout', 'process.hrtime'])

/** Uses of the real time or of real randomness: both are parameters, so that no test sleeps or flickers. */
export function checkClock(all: Files, exceptions: Readonly<Record<string, string>> = clockExceptions): string[] {
  const faults: string[] = []
  for (const [path, text] of sources(all)) {
    if (exceptions[path]) continue
    walk(parse(path, text).program, (node, parent) => {
      const use = clockUse(node, parent)
      if (use) faults.push(`${path}:${lineAt(text, node.start)}: ${use} outside the clock`)
    })
  }
  return faults
}

function clockUse(node: Node, parent: Node | undefined): string | undefined {
  if (node.type === 'MemberExpression') {
    const name = `${nameOf(node.object)}.${nameOf(node.property)}`
    if (clockMembers.has(name)) return name
    if (name.startsWith('globalThis.') && timers.has(nameOf(node.property) ?? '')) return name
  }
  if (node.type === 'NewExpression' && nameOf(node.callee) === 'Date') {
    return (node.arguments as Node[]).length === 0 ? 'new Date()' : undefined
  }
  if (node.type === 'ImportDeclaration' && isNode(node.source)) {
    const source = String(node.source.value)
    return /^(node:)?timers(\/promises)?$/.test(source) ? source : undefined
  }
  if (node.type === 'Identifier' && timers.has(String(node.name)) && isValue(node, parent)) return String(node.name)
  return undefined
}

/** True where an identifier is called or handed on, false where it only names a member, a parameter or a type. */
function isValue(node: Node, parent: Node | undefined): boolean {
  if (parent?.type === 'CallExpression' || parent?.type === 'NewExpression') return true
  return parent?.type === 'VariableDeclarator' && parent.init === node
}

function nameOf(node: unknown): string | undefined {
  return isNode(node) && typeof node.name === 'string' ? node.name : undefined
}

const machinePath = /(^|[^A-Za-z0-9_.])\/(work|farm|root|home)\/[A-Za-z.]/
const registryHost =
  /\b(npmjs\.(org|com)|yarnpkg\.com|pypi\.org|golang\.org\/|maven\.(org|apache)|debian\.org|crates\.io)/

/** Lines that only make sense on one machine: paths of a workplace, hosts of a package registry. */
export function checkMachineNames(all: Files): string[] {
  return [...all].flatMap(([path, text]) =>
    text.split('\n').flatMap((line, index) => {
      const found = machinePath.exec(line) ?? registryHost.exec(line)
      return found ? [`${path}:${index + 1}: names ${found[0].trim()}`] : []
    }),
  )
}
