import { isSameNumber, type Decimal } from './json-number.ts'
import { childAt, countOf, positionOf, type JsonNode, type JsonSlice } from './json-node.ts'
import { MISSING } from './name-index.ts'

// Equality of JSON values (RFC 6902, 4.6).

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
const QUOTE = 0x22
const BACKSLASH = 0x5c
const MINUS = 0x2d

/** Bytes of the longest escape of a character. */
const MAX_ESCAPE = 6

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
 * It takes as long as `expected` is large, besides one pass over each object of `actual` that is compared.
 *
 * @throws {DuplicateNameError}
 */
export function isEqual (actual: JsonNode, expected: JsonSlice): boolean {
  const type = typeOf(actual.firstByte)
  if (type !== typeOf(expected.firstByte)) return false
  switch (type) {
    case OPEN_BRACE:
      return isEqualObject(actual, expected)
    case OPEN_BRACKET:
      return isEqualArray(actual, expected)
    case QUOTE:
      return isEqualString(actual as JsonSlice, expected)
    case MINUS:
      return isSameNumber(numberOf(actual as JsonSlice), numberOf(expected))
    default:
      return true
  }
}

/** MINUS stands for all numbers. */
const typeOf = (firstByte: number): number => firstByte >= 0x30 && firstByte <= 0x39 ? MINUS : firstByte

const bytesOf = ({ text, id }: JsonSlice): Buffer => text.bytes.subarray(text.start(id), text.end(id))

const numberOf = ({ text, id }: JsonSlice): Decimal => text.number(id)

function isEqualObject (actual: JsonNode, expected: JsonSlice): boolean {
  refuseDuplicates(actual)
  refuseDuplicates(expected)
  const { members } = expected
  if (countOf(actual) !== members.count) return false
  for (let position = 0; position < members.count; position++) {
    const found = positionOf(actual, members.name(position))
    if (found === MISSING) return false
    if (!isEqual(childAt(actual, found), childAt(expected, position) as JsonSlice)) return false
  }
  return true
}

/** Changes never add or remove duplicates, so the original members tell. */
function refuseDuplicates ({ members }: JsonNode): void {
  const duplicate = members.index.firstDuplicate
  if (duplicate !== undefined) throw new DuplicateNameError(duplicate)
}

function isEqualArray (actual: JsonNode, expected: JsonSlice): boolean {
  const { count } = expected.members
  if (countOf(actual) !== count) return false
  for (let position = 0; position < count; position++) {
    if (!isEqual(childAt(actual, position), childAt(expected, position) as JsonSlice)) return false
  }
  return true
}

function isEqualString (actual: JsonSlice, expected: JsonSlice): boolean {
  const [a, b] = [bytesOf(actual), bytesOf(expected)]
  if (a.equals(b)) return true
  if (!a.includes(BACKSLASH) && !b.includes(BACKSLASH)) return false
  // A string is at most six times as long as an equal one. This bounds the time for decoding it.
  if (a.length > MAX_ESCAPE * b.length) return false
  return actual.text.string(actual.id) === expected.text.string(expected.id)
}
