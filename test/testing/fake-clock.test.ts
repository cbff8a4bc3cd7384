import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../src/testing/fake-clock.ts'

describe('the fake clock', () => {
  test('stands still until it is moved', async () => {
    const clock = new FakeClock({ startAt: 1_000 })
    expect([clock.now(), clock.monotonic(), clock.virtual]).toEqual([1_000, 0, true])
    await clock.advance(250)
    expect([clock.now(), clock.monotonic()]).toEqual([1_250, 250])
  })

  test('a jump moves the wall alone and runs no timer', async () => {
    const clock = new FakeClock({ startAt: 1_000 })
    const fired: string[] = []
    clock.after(100, () => fired.push('timer'))
    clock.jump(-5_000)
    expect([clock.now(), clock.monotonic(), fired]).toEqual([-4_000, 0, []])
    await clock.advance(100)
    expect(fired).toEqual(['timer'])
  })

  test('runs timers in the order in which they are due, at their time', async () => {
    const clock = new FakeClock()
    const fired: unknown[] = []
    clock.after(30, () => fired.push(['late', clock.monotonic()]))
    clock.after(10, () => fired.push(['first', clock.monotonic()]))
    clock.after(10, () => fired.push(['second', clock.monotonic()]))
    const gone = clock.after(20, () => fired.push('cancelled'))
    gone.cancel()
    gone.cancel()
    await clock.advance(29)
    expect(fired).toEqual([
      ['first', 10],
      ['second', 10],
    ])
    await clock.advance(1)
    expect(fired[2]).toEqual(['late', 30])
    expect(clock.pending).toBe(0)
  })

  test('lets a loop that sleeps go round as often as it would', async () => {
    const clock = new FakeClock()
    let rounds = 0
    const stop = new AbortController()
    const loop = (async () => {
      while (!stop.signal.aborted) {
        await clock.sleep(100, stop.signal)
        await Promise.resolve()
        rounds++
      }
    })()
    await clock.advance(1_000)
    expect(rounds).toBe(10)
    stop.abort()
    await loop
    expect(clock.pending).toBe(0)
  })

  test('does not put a sleeper to sleep under an aborted signal', async () => {
    const clock = new FakeClock()
    await clock.sleep(1_000, AbortSignal.abort())
    expect(clock.pending).toBe(0)
  })

  test('repeats its random numbers for a seed', () => {
    const draw = (seed: number) => Array.from({ length: 5 }, () => seeded.get(seed)?.random() ?? -1)
    const seeded = new Map([1, 2].map(seed => [seed, new FakeClock({ seed })]))
    const first = draw(1)
    expect(new Set(first).size).toBe(5)
    expect(first.every(number => number >= 0 && number < 1)).toBe(true)
    expect(draw(2)).not.toEqual(first)
    const again = new FakeClock({ seed: 1 })
    expect(Array.from({ length: 5 }, () => again.random())).toEqual(first)
  })
})
