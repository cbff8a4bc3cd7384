import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'

describe('the system clock', () => {
  test('follows the wall and never goes backwards', () => {
    expect(systemClock.virtual).toBe(false)
    expect(Math.abs(systemClock.now() - Date.now())).toBeLessThan(1_000)
    const earlier = systemClock.monotonic()
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(earlier)
  })

  test('fires a timer once, and not when it was cancelled', async () => {
    const fired: string[] = []
    systemClock.after(1, () => fired.push('kept'))
    const cancelled = systemClock.after(1, () => fired.push('cancelled'))
    cancelled.cancel()
    cancelled.cancel()
    await systemClock.sleep(20)
    expect(fired).toEqual(['kept'])
  })

  test('does not fire a timer of a month at once, as Node does above 2^31 ms', async () => {
    const fired: string[] = []
    const timer = systemClock.after(30 * 86_400_000, () => fired.push('early'), true)
    await systemClock.sleep(20)
    timer.cancel()
    expect(fired).toEqual([])
  })

  test('wakes a sleeper when the signal aborts, and does not put one to sleep under an aborted signal', async () => {
    const abort = new AbortController()
    const began = systemClock.monotonic()
    const slept = systemClock.sleep(60_000, abort.signal)
    abort.abort()
    await slept
    await systemClock.sleep(60_000, abort.signal)
    expect(systemClock.monotonic() - began).toBeLessThan(5_000)
  })
})
