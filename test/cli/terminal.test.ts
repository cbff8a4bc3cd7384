import { describe, expect, test } from 'vitest'
import { explain } from '../../src/cli/output.ts'
import { redact, redactAddress, shorten, table, visible, visibleJson, widthOf, wrap } from '../../src/cli/terminal.ts'
import { IchidoError } from '../../src/contracts/errors.ts'

describe('foreign text', () => {
  test.each([
    ['escape sequences', '\u001b[31mred', '\\u001b[31mred'],
    ['the C1 introducer', '\u009b2J', '\\u009b2J'],
    ['bidi overrides', 'a\u202eb\u2066c', 'a\\u202eb\\u2066c'],
    ['zero width', 'a\u200b\u200d\ufeffb', 'a\\u200b\\u200d\\ufeffb'],
    ['tags', 'a\u{e0041}b', 'a\\u{e0041}b'],
    ['line ends', 'a\r\nb\u2028c\td', 'a\\u000d⏎b\\u2028c d'],
    ['fillers', 'a\u3164b', 'a\\u3164b'],
    ['lone surrogates', 'a\ud800b', 'a\ufffdb'],
    ['letters of the world', '日本語 ñ é 👍 العربية', '日本語 ñ é 👍 العربية'],
  ])('%s', (_, text, shown) => {
    expect(visible(text)).toBe(shown)
  })

  test('in JSON is escaped and parses to what it was', () => {
    const value = { id: 'a\u202e\u009b\u{e0041}\n\u001bb' }
    const text = visibleJson(JSON.stringify(value, null, 2))
    expect(text).not.toMatch(/[\u202e\u009b\u001b]|\u{e0041}/u)
    expect(JSON.parse(text)).toEqual(value)
  })
})

describe('passwords', () => {
  test.each([
    ['postgres://u:secret@h/db', 'postgres://u:•••@h/db'],
    ['cannot reach postgresql://u:s%40cret@h:1/db?x=1 now', 'cannot reach postgresql://u:•••@h:1/db?x=1 now'],
    ['postgres://:secret@h/db', 'postgres://:•••@h/db'],
    ['postgres://u:sec@ret/x@h/db', 'postgres://u:•••@h/db'],
    ['postgres://h/db?user=u&password=secret&x=1', 'postgres://h/db?user=u&password=•••&x=1'],
    [`host=h password='sec ret' dbname=d`, 'host=h password=••• dbname=d'],
    ['sqlite:data/app.db at 10:30', 'sqlite:data/app.db at 10:30'],
  ])('%s', (text, hidden) => {
    expect(redact(text)).toBe(hidden)
  })

  test.each(['postgres:/u:secret@h', 'u:secret@h', 'postgres://u:a secret / b@h/db'])('of a mistyped %s', address => {
    expect(redactAddress(address)).not.toContain('secret')
  })

  test('in errors', () => {
    const error = new IchidoError('STORE_ERROR', 'postgres://u:secret@h said \u001b[2J')
    for (const json of [true, false]) {
      const text = explain(error, json)
      expect(text).not.toMatch(/secret|\u001b\[2J/)
      expect(text).toContain('STORE_ERROR')
    }
    expect(explain(new Error('broken'), false)).toContain('Error: broken')
    expect(JSON.parse(explain(new Error('broken'), true)).error.code).toBe('UNEXPECTED')
  })
})

describe('a table', () => {
  const rows = [
    ['a', 1, 'short'],
    ['日本', 22, 'a cause that is rather long and goes on'],
  ] as const

  test('aligns by what a terminal shows, numbers to the right', () => {
    expect(table(['id', 'n', 'cause'], rows, 200).split('\n')).toEqual([
      'id     n  cause',
      'a      1  short',
      '日本  22  a cause that is rather long and goes on',
    ])
  })

  test('cuts the last column to the screen', () => {
    expect(table(['id', 'n', 'cause'], rows, 36).split('\n')[2]).toBe('日本  22  a cause that is rather lo…')
  })

  test('puts the last column beneath when there is next to no room', () => {
    expect(table(['id', 'n', 'cause'], rows, 24).split('\n')).toEqual([
      'id     n',
      'a      1',
      '  short',
      '日本  22',
      '  a cause that is rathe…',
    ])
  })

  test('never is wider than the screen because of its free text', () => {
    for (let screen = 20; screen < 80; screen++) {
      for (const line of table(['id', 'n', 'cause'], rows, screen).split('\n'))
        expect(widthOf(line)).toBeLessThanOrEqual(screen)
    }
  })
})

test('texts are cut between characters and wrapped between words', () => {
  expect(shorten('👍👍👍', 5)).toBe('👍👍…')
  expect(shorten('日本語', 6)).toBe('日本語')
  expect(wrap('one two three four', 2, 10)).toBe('one two\n  three\n  four')
})
