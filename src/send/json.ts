import { limits } from '../contracts/limits.ts'

/**
 * Says where a value holds what JSON cannot carry unchanged, or null when it can. Undefined properties are dropped by JSON and mean the
 * same as missing ones; everything else that it would bend (dates, NaN, maps, big integers, instances) is refused.
 */
export function findUnjsonable(value: unknown, path = '', depth = 0): string | null {
  if (value === null) return null
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return null
    case 'number':
      return Number.isFinite(value) ? null : `${path || 'the value'} is ${value}`
    case 'object':
      return findInObject(value, path, depth)
    default:
      return `${path || 'the value'} is ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`
  }
}

function findInObject(value: object, path: string, depth: number): string | null {
  if (depth >= limits.jsonDepth) return `${path} is nested deeper than ${limits.jsonDepth} levels (or refers to itself)`
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const fault = findUnjsonable(value[index], `${path}[${index}]`, depth + 1)
      if (fault) return fault
    }
    return null
  }
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    return `${path || 'the value'} is an instance of ${prototype.constructor?.name ?? 'a class'}; send plain data (a date as an ISO string)`
  }
  for (const name in value) {
    const property = (value as Record<string, unknown>)[name]
    if (property === undefined) continue
    const fault = findUnjsonable(property, path === '' ? name : `${path}.${name}`, depth + 1)
    if (fault) return fault
  }
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
    ? `${path || 'the value'} has a toJSON method`
    : null
}
