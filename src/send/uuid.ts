import { randomFillSync } from 'node:crypto'

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const pool = new Uint8Array(10 * 256)
let used = pool.length

/**
 * UUIDv7 (RFC 9562): begins with the time, so that ids made one after another lie side by side in an index. Within one millisecond the
 * 12 bits behind the time count up, and the last 62 bits are random.
 */
export function createUuidFactory(now: () => number): () => string {
  let lastMs = 0
  let sequence = 0
  return () => {
    const ms = now()
    if (ms > lastMs) {
      lastMs = ms
      sequence = 0
    } else if (++sequence > 0xfff) {
      lastMs += 1
      sequence = 0
    }
    return format(lastMs, sequence)
  }
}

function format(ms: number, sequence: number): string {
  if (used + 8 > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const at = used
  used += 8
  const high = Math.floor(ms / 0x10000)
  const low = ms & 0xffff
  const time = high.toString(16).padStart(8, '0')
  const h = (index: number) => hex[pool[at + index] as number] as string
  const variant = hex[((pool[at] as number) & 0x3f) | 0x80] as string
  return (
    `${time}-${hex[low >> 8]}${hex[low & 0xff]}-7${(sequence & 0xfff).toString(16).padStart(3, '0')}-` +
    `${variant}${h(1)}-${h(2)}${h(3)}${h(4)}${h(5)}${h(6)}${h(7)}`
  )
}
