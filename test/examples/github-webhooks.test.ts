import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const start = fileURLToPath(new URL('../../examples/github-webhooks/start.ts', import.meta.url))

test('the example loses and doubles nothing while its worker is killed five times', { timeout: 120_000 }, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [start, '--repositories', '2', '--seed', '7'], {
    timeout: 110_000,
  })
  expect(stdout).toContain('658 deliveries for 2 repositories')
  const books = new Map([...stdout.matchAll(/^ {2}(\S.*?) {2,}(\S.*)$/gm)].map(match => [match[1], match[2]]))
  expect(books.get('sent')).toBe('658')
  expect(books.get('lost')).toBe('0')
  expect(books.get('double effects')).toBe('0')
  expect(books.get('dead')).toBe('1 format')
  expect(books.get('worker killed (SIGKILL)')).toBe('5')
  expect(stdout).toContain('✓ The books balance, the mirror is exact, and every log is in order.')
})
