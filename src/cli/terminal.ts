import colors from 'picocolors'

const dangerous = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g

/** Makes control, escape and direction characters of foreign texts visible, so that no message can write on the operator's screen. */
export function visible(text: string): string {
  return text.toWellFormed().replace(dangerous, character => {
    if (character === '\n') return '⏎'
    if (character === '\t') return ' '
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** Cuts a text to a width, with an ellipsis. */
export function shorten(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

/** Hides the password of a connection string, wherever it stands. */
export function redact(text: string): string {
  return text.replace(/(\w+:\/\/[^:/@\s]+):[^@\s]+@/g, '$1:•••@').replace(/(password=)[^&\s]+/gi, '$1•••')
}

export type Level = 'ok' | 'warning' | 'critical'

const marks: Readonly<Record<Level, string>> = { ok: '✓', warning: '!', critical: '✗' }

/** A word with its mark; colour only helps. */
export function marked(level: Level, text: string): string {
  const line = `${marks[level]} ${text}`
  if (level === 'critical') return colors.red(line)
  return level === 'warning' ? colors.yellow(line) : colors.green(line)
}

/** Columns aligned by their widest cell; numbers to the right. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly (string | number)[]>): string {
  const width = (text: string) => text.replace(/\u001b\[[0-9;]*m/g, '').length
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map(row => width(String(row[column] ?? '')))))
  const pad = (cell: string | number, column: number) => {
    const space = ' '.repeat((widths[column] as number) - width(String(cell)))
    return typeof cell === 'number' ? `${space}${cell}` : `${cell}${space}`
  }
  const line = (cells: readonly (string | number)[]) => cells.map(pad).join('  ').trimEnd()
  const isNumber = head.map((_, column) => rows.length > 0 && rows.every(row => typeof row[column] === 'number'))
  const title = head.map((name, column) =>
    isNumber[column] ? name.padStart(widths[column] as number) : name.padEnd(widths[column] as number),
  )
  return [colors.dim(title.join('  ').trimEnd()), ...rows.map(line)].join('\n')
}

/** Seconds are enough for people, in UTC, so that two machines agree. */
export function time(ms: number | null): string {
  return ms === null ? '–' : new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}
