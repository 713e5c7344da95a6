import { nextTurn } from '../../../infra/system/turns.ts'
import { decodeHtml, decodeJson, decodeLooseHtml, decodeUrl } from './escapes.ts'
import { stringValues } from './string-values.ts'

// Finds what may be storage keys of assets in documents, however they are escaped: 22 letters and digits,
// mostly with an extension (docs/adr/0025-uses-of-assets.md).

const KEY_LENGTH = 22
const SHORTEST_EXTENSION = 2
const LONGEST_EXTENSION = 5
/** The path of a variant doesn't have the extension of the original, which is one of these. */
const PICTURES = ['.jpg', '.png', '.webp', '.gif', '.avif']

const POINT = 0x2e
const SLASH = 0x2f
const LETTER_W = 0x77
const LETTERS_AND_DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

const LETTER_OR_DIGIT = bytesOf(LETTERS_AND_DIGITS)
const LOWER_OR_DIGIT = bytesOf(LETTERS_AND_DIGITS.replaceAll(/[A-Z]/g, ''))
/** The characters of escaped letters and digits. */
const ESCAPED = bytesOf(`${LETTERS_AND_DIGITS}%\\&#;`)

/** What an escape begins with, or what is removed from URLs. */
const ESCAPE = /[%\\&\t\n\r]/
/** How much text behind a key is decoded with it, for its extension or the path of a variant. */
const MAX_TAIL = 2000
/** How often a part of a document is decoded, in addition to the escapes of the document itself. */
const MAX_STAGES = 10

/** Characters that are searched in one turn of the event loop. Each stage of decoding counts. */
const SLICE_LENGTH = 64 * 1024
/** Keys that are held in memory before those that don't exist are dropped. */
const MAX_KEYS = 5_000

/**
 * Returns what may be storage keys of assets in the string values of a document. Names of members don't
 * count.
 *
 * @param document valid JSON
 * @param keepExisting returns those of the keys that exist. Only documents with thousands need it.
 */
export async function findStorageKeys (
  document: string,
  keepExisting: (keys: string[]) => Promise<string[]>
): Promise<string[]> {
  if (document.length <= SLICE_LENGTH && nextRun(document, 0) === -1) return []
  const existing: string[] = []
  const keys = new Set<string>()
  let searched = 0
  for (const text of stringValues(document)) {
    if (text !== undefined) searched += text.length + addKeys(text, keys)
    if (keys.size > MAX_KEYS) {
      existing.push(...await keepExisting([...keys]))
      keys.clear()
    }
    if (text === undefined || searched > SLICE_LENGTH) {
      searched = 0
      await nextTurn()
    }
  }
  return [...existing, ...keys]
}

/**
 * Adds the keys in a part of a document.
 *
 * @returns how many characters were decoded
 */
function addKeys (text: string, keys: Set<string>): number {
  let sum = 0
  for (let start = nextRun(text, 0); start !== -1;) {
    const end = endOfRun(text, start)
    const next = text.charCodeAt(end)
    const last = next === POINT || next === SLASH ? Math.min(endOfRun(text, end + 1), end + MAX_TAIL) : end
    const bytes = Buffer.from(text.slice(start, last))
    sum += bytes.length
    const length = decodeJson(bytes, bytes.length)
    addUnescapedKeys(bytes, length, keys)
    if (ESCAPE.test(bytes.toString('latin1', 0, length))) sum += addEscapedKeys(bytes, length, keys)
    start = nextRun(text, end)
  }
  return sum
}

/**
 * Adds the keys of every stage of decoding, because one may follow a percent sign that isn't an escape. The
 * order matters if a layer of escapes hides parts of another one, for example of a script in HTML.
 */
function addEscapedKeys (bytes: Buffer, length: number, keys: Set<string>): number {
  let [sum, stages, rest] = [0, 0, length]
  const advance = (decode: typeof decodeJson): boolean => {
    const decoded = stages < MAX_STAGES ? decode(bytes, rest) : rest
    if (decoded === rest) return false
    rest = decoded
    stages++
    sum += rest
    addUnescapedKeys(bytes, rest, keys)
    return true
  }
  let isChanged = true
  while (isChanged) {
    isChanged = false
    while (advance(decodeHtml)) isChanged = true
    if (advance(decodeJson)) isChanged = true
    if (advance(decodeUrl)) isChanged = true
    if (!isChanged) isChanged = advance(decodeLooseHtml)
  }
  return sum
}

function addUnescapedKeys (bytes: Buffer, length: number, keys: Set<string>): void {
  for (let start = 0; start < length; start++) {
    let end = start
    while (end < length && LETTER_OR_DIGIT[bytes[end] as number] === 1) end++
    // More letters and digits are what is left of an escape, or whatever a page has before a key.
    if (end - start >= KEY_LENGTH) addKey(bytes, end, length, keys)
    start = end
  }
}

/** @param end where the 22 characters end */
function addKey (bytes: Buffer, end: number, length: number, keys: Set<string>): void {
  const start = end - KEY_LENGTH
  const key = bytes.toString('latin1', start, end)
  keys.add(key)
  const next = end < length ? bytes[end] : undefined
  if (next === POINT) {
    const last = Math.min(length, end + 1 + LONGEST_EXTENSION)
    let to = end + 1
    while (to < last && LOWER_OR_DIGIT[bytes[to] as number] === 1) to++
    // Where line breaks are removed, other text may follow at once.
    for (; to >= end + 1 + SHORTEST_EXTENSION; to--) keys.add(bytes.toString('latin1', start, to))
  } else if (next === SLASH && end + 1 < length && bytes[end + 1] === LETTER_W) {
    for (const picture of PICTURES) keys.add(key + picture)
  }
}

/**
 * Returns where the next 22 characters begin that may be those of an escaped key; -1 if there are none. It
 * looks at every 22nd character only, as long as these can't belong to a key.
 */
function nextRun (text: string, from: number): number {
  let start = from
  for (let end = start + KEY_LENGTH; end <= text.length; end = start + KEY_LENGTH) {
    let at = end - 1
    while (at >= start && isEscaped(text.charCodeAt(at))) at--
    if (at < start) return start
    start = at + 1
  }
  return -1
}

function endOfRun (text: string, from: number): number {
  let end = from
  while (end < text.length && isEscaped(text.charCodeAt(end))) end++
  return end
}

const isEscaped = (code: number): boolean => code < 0x80 && ESCAPED[code] === 1

/** Returns a table with 1 for each of the characters. */
function bytesOf (characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}
