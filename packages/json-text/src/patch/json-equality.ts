import { decodeString } from '../text/reader.ts'
import type { JsonNode } from './json-node.ts'

// Equality of JSON values (RFC 6902, 4.6).

/** Characters of the longest escape of a character. */
const MAX_ESCAPE = 6
/** More digits than the shift of an exponent can have. */
const MAX_SHIFT_DIGITS = 12

/** An object has this name more than once, so it can't be compared. */
export class DuplicateNameError extends Error {
  readonly duplicate: string

  constructor (name: string) {
    super(`Duplicate name ${name}`)
    this.duplicate = name
  }
}

/**
 * Whether two values are equal: numbers by their exact value, strings after decoding, objects in any order.
 *
 * @throws {DuplicateNameError}
 */
export function isEqual (actual: JsonNode, expected: JsonNode): boolean {
  if (actual.type !== expected.type) return false
  switch (expected.type) {
    case 'object':
      return isEqualObject(actual, expected)
    case 'array':
      return actual.count === expected.count &&
        Array.from({ length: expected.count }, (_, index) => index)
          .every((index) => isEqual(actual.get(index), expected.get(index)))
    case 'string':
      return isEqualString(actual.text, expected.text)
    case 'number':
      return isEqualNumber(actual.text, expected.text)
    default:
      return actual.text === expected.text
  }
}

function isEqualObject (actual: JsonNode, expected: JsonNode): boolean {
  const duplicate = actual.duplicate ?? expected.duplicate
  if (duplicate !== undefined) throw new DuplicateNameError(duplicate)
  return actual.count === expected.count &&
    expected.names.every((name) => actual.has(name) && isEqual(actual.get(name), expected.get(name)))
}

function isEqualString (actual: string, expected: string): boolean {
  if (actual === expected) return true
  // This bounds the time for decoding the longer one.
  if (actual.length > MAX_ESCAPE * expected.length) return false
  return decodeString(actual) === decodeString(expected)
}

/** Whether two JSON numbers are numerically equal: 1.0 is 1, and -0 is 0. */
function isEqualNumber (actual: string, expected: string): boolean {
  if (actual === expected) return true
  const [a, b] = [parse(actual), parse(expected)]
  if (a.digits !== b.digits) return false
  return a.digits === '' || (a.isNegative === b.isNegative && isSameExponent(a, b))
}

/** A number is `0.digits` times ten to the power `exponent + shift`. Zero has no digits. */
interface Decimal {
  readonly isNegative: boolean
  /** Without zeros at the start and the end. */
  readonly digits: string
  readonly exponent: string
  readonly shift: number
}

function parse (number: string): Decimal {
  const [mantissa = '', exponent = '0'] = number.split(/[eE]/)
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = whole + fraction
  let first = 0
  while (all[first] === '0') first++
  let last = all.length
  while (last > first && all[last - 1] === '0') last--
  return {
    isNegative: number.startsWith('-'),
    digits: all.slice(first, last),
    exponent: exponent.replace(/^([+-]?)0+(?=\d)/, '$1').replace('+', ''),
    shift: whole.length - first
  }
}

function isSameExponent (a: Decimal, b: Decimal): boolean {
  const longest = Math.max(a.exponent.length, b.exponent.length)
  // Only exponents of similar length can be equal. Parsing no others bounds the time.
  if (longest > MAX_SHIFT_DIGITS && longest > Math.min(a.exponent.length, b.exponent.length) + 1) return false
  return BigInt(a.exponent) + BigInt(a.shift) === BigInt(b.exponent) + BigInt(b.shift)
}
