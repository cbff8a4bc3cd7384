import picocolors from 'picocolors'

/** Colour only where a person looks: never in a pipe, never with NO_COLOR. */
function hasColor(stream: { readonly isTTY?: boolean }): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env
  if (NO_COLOR) return false
  if (FORCE_COLOR && FORCE_COLOR !== '0') return true
  return stream.isTTY === true && TERM !== 'dumb'
}

const colors = picocolors.createColors(hasColor(process.stdout))
export const errorColors = picocolors.createColors(hasColor(process.stderr))
export const dim = colors.dim

/** How wide a line may be. A pipe has no width: there each record stays on one line. */
export function screenWidth(): number {
  return process.stdout.isTTY ? Math.max(40, process.stdout.columns || 80) : Number.POSITIVE_INFINITY
}

/** Control, format (bidi, zero width, tags), separator and filler characters: whatever moves a cursor or hides. */
const dangerous = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|\u034f|\u115f|\u1160|\u3164|\uffa0/gu

/** Makes what is invisible in foreign texts visible, so that no message can write on the operator's screen. */
export function visible(text: string): string {
  return text.toWellFormed().replace(dangerous, character => {
    if (character === '\n') return '⏎'
    if (character === '\t') return ' '
    const digits = (character.codePointAt(0) as number).toString(16)
    return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`
  })
}

/** JSON text with the same characters as escapes: JSON itself lets all but the oldest control characters through. */
export function visibleJson(text: string): string {
  return text.replace(dangerous, character => {
    if (character === '\n') return character
    const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index))
    return units.map(unit => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}

const styles = /\u001b\[[0-9;]*m/g
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\p{Emoji_Presentation}\u{20000}-\u{3fffd}]/u
const combining = /\p{M}/u

/** Columns that a text takes on a terminal: East Asian characters and emoji take two, combining marks none. */
export function widthOf(text: string): number {
  let width = 0
  for (const character of text.replace(styles, '')) {
    if (!combining.test(character)) width += wide.test(character) ? 2 : 1
  }
  return width
}

/** Cuts a text to a width, with an ellipsis, between characters. */
export function shorten(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let cut = ''
  let used = 1
  for (const character of text) {
    used += widthOf(character)
    if (used > width) break
    cut += character
  }
  return `${cut}…`
}

/** Breaks a text of ours between words; every line after the first is indented. */
export function wrap(text: string, indent: number, width = screenWidth()): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && widthOf(line) + 1 + widthOf(word) > width - indent) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].join(`\n${' '.repeat(indent)}`)
}

/** Hides passwords in connection strings, wherever they stand in a text. */
export function redact(text: string): string {
  return text
    .replace(/([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@]*):[^\s]*@/gi, '$1:•••@')
    .replace(/\b((?:ssl)?password=)('[^']*'|[^&\s]+)/gi, '$1•••')
}

/** One address, whole: it may be mistyped, and its password may hold spaces, slashes and more. */
export function redactAddress(address: string): string {
  return redact(address.replace(/^(.*?:\/\/)?([^:@/]*):.*@/s, '$1$2:•••@'))
}

export type Level = 'ok' | 'warning' | 'critical'

const marks: Readonly<Record<Level, string>> = { ok: '✓', warning: '!', critical: '✗' }

/** A word with its mark; colour only helps. */
export function marked(level: Level, text: string): string {
  const line = `${marks[level]} ${text}`
  if (level === 'critical') return colors.red(line)
  return level === 'warning' ? colors.yellow(line) : colors.green(line)
}

type Cell = string | number
type Row = readonly Cell[]

/** The least room in which a cause is worth reading. */
const READABLE = 24

/**
 * Columns aligned by their widest cell, numbers to the right. The last column is for free text: it is cut to what the screen leaves, or
 * goes beneath its row when that is next to nothing.
 */
export function table(head: readonly string[], rows: readonly Row[], screen = screenWidth()): string {
  const last = head.length - 1
  const widths = head.map((name, column) => {
    return Math.max(widthOf(name), ...rows.map(row => widthOf(String(row[column] ?? ''))))
  })
  const room = screen - widths.slice(0, last).reduce((sum, width) => sum + width + 2, 0)
  const beneath = (widths[last] as number) > room && room < READABLE
  const isNumber = head.map((_, column) => rows.length > 0 && rows.every(row => typeof row[column] === 'number'))
  const pad = (cell: Cell, column: number, right: boolean) => {
    const space = ' '.repeat(Math.max(0, (widths[column] as number) - widthOf(String(cell))))
    return right ? `${space}${cell}` : `${cell}${space}`
  }
  const line = (cells: Row, right: (cell: Cell, column: number) => boolean) => {
    const aligned = cells.slice(0, last).map((cell, column) => pad(cell, column, right(cell, column)))
    const free = cells[last] ?? ''
    if (beneath)
      return `${aligned.join('  ').trimEnd()}${free === '' ? '' : `\n  ${shorten(String(free), screen - 2)}`}`
    const text = typeof free === 'number' || right(free, last) ? pad(free, last, true) : shorten(free, room)
    return [...aligned, text].join('  ').trimEnd()
  }
  const title = line(beneath ? [...head.slice(0, last), ''] : head, (_, column) => isNumber[column] === true)
  return [colors.dim(title), ...rows.map(row => line(row, cell => typeof cell === 'number'))].join('\n')
}

/** Seconds are enough for people, in UTC, so that two machines agree. */
export function time(ms: number | null): string {
  return ms === null ? '–' : new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** `1 message`, `2 messages`. */
export function count(n: number, singular: string): string {
  return `${n} ${singular}${n === 1 ? '' : 's'}`
}
