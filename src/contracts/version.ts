import { IchidoError } from './errors.ts'

/** Versions as texts that compare bytewise in their own order; numbers and strings are kept apart by their first letter. */
export function sortableVersion(version: number | string): string {
  if (typeof version === 'string') return `s${version}`
  if (!Number.isFinite(version)) throw new IchidoError('INVALID_MESSAGE', `The version ${version} cannot be compared.`)
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, version === 0 ? 0 : version)
  // The bits of a double order like the number once the sign bit is turned, and all bits of a negative one.
  const raw = bits.getBigUint64(0)
  const ordered = raw >> 63n ? ~raw & 0xffffffffffffffffn : raw | 0x8000000000000000n
  return `n${ordered.toString(16).padStart(16, '0')}`
}
