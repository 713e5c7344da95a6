// Decodes one level of escapes in place, without strings, because a hostile document has a million of them.
// Each function takes a buffer and the length of its text, and returns the length of the decoded text. An
// escape of a character that isn't ASCII becomes the byte 0xff.

type Decode = (bytes: Buffer, length: number) => number

const TAB = 0x09
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const HASH = 0x23
const PERCENT = 0x25
const AMPERSAND = 0x26
const SEMICOLON = 0x3b
const BACKSLASH = 0x5c
const LETTER_U = 0x75
const LETTER_X = 0x78
const NOT_ASCII = 0xff
/** What a removed character means. */
const NOTHING = -1

const code = (character: string): number => character.charCodeAt(0)

/** What a character after a backslash means in JSON and in scripts. */
const LETTERS =
  new Map([...'"/\\bfnrt'].map((letter) => [code(letter), code(JSON.parse(`"\\${letter}"`) as string)]))
/** The names that matter. Letters and digits have none. */
const NAMES: Readonly<Record<string, number>> = {
  amp: AMPERSAND,
  bsol: BACKSLASH,
  num: HASH,
  percnt: PERCENT,
  period: code('.'),
  semi: SEMICOLON,
  sol: code('/'),
  Tab: TAB,
  NewLine: LINE_FEED
}
const LONGEST_NAME = 7

const HEX_DIGITS = new Int8Array(256).fill(-1)
for (const digit of '0123456789abcdefABCDEF') HEX_DIGITS[code(digit)] = parseInt(digit, 16)

/** Of the escape that was read last: what it means, and where it ends. */
let meaning = 0
let escapeEnd = 0

/** Decodes the escapes of JSON and of scripts. */
export const decodeJson: Decode = decoder([BACKSLASH], (bytes, at, length) => {
  const letter = bytes[at + 1] as number
  if (letter === LETTER_U) return readHex(bytes, at + 2, 4, length)
  if (letter === LETTER_X) return readHex(bytes, at + 2, 2, length)
  meaning = LETTERS.get(letter) ?? NOTHING
  escapeEnd = at + 2
  return meaning !== NOTHING && escapeEnd <= length
})

/** Decodes percent-encoding, and removes tabs and line breaks, as browsers do from URLs. */
export const decodeUrl: Decode = decoder([PERCENT, TAB, LINE_FEED, CARRIAGE_RETURN], (bytes, at, length) => {
  if (bytes[at] === PERCENT) return readHex(bytes, at + 1, 2, length)
  meaning = NOTHING
  escapeEnd = at + 1
  return true
})

/** Decodes the character references of HTML. */
export const decodeHtml: Decode = decoder(
  [AMPERSAND],
  (bytes, at, length) =>
    bytes[at + 1] === HASH ? readNumber(bytes, at + 2, length) && bytes[escapeEnd - 1] === SEMICOLON
      : readName(bytes, at + 1, length)
)

/** Decodes numeric references without a semicolon, too, as browsers do. */
export const decodeLooseHtml: Decode = decoder(
  [AMPERSAND],
  (bytes, at, length) =>
    bytes[at + 1] === HASH ? readNumber(bytes, at + 2, length) : readName(bytes, at + 1, length)
)

/**
 * @param starts the first characters of escapes
 * @param read whether the text has an escape at `at`. Sets `meaning` and `escapeEnd`
 */
function decoder (
  starts: readonly number[],
  read: (bytes: Buffer, at: number, length: number) => boolean
): Decode {
  const isStart = new Uint8Array(256)
  for (const start of starts) isStart[start] = 1
  return (bytes, length) => {
    let to = 0
    for (let at = 0; at < length;) {
      const byte = bytes[at] as number
      if (isStart[byte] === 0 || !read(bytes, at, length)) {
        bytes[to++] = byte
        at++
      } else {
        if (meaning !== NOTHING) bytes[to++] = meaning < 0x80 ? meaning : NOT_ASCII
        at = escapeEnd
      }
    }
    return to
  }
}

function readHex (bytes: Buffer, start: number, digits: number, length: number): boolean {
  escapeEnd = start + digits
  if (escapeEnd > length) return false
  meaning = 0
  for (let at = start; at < escapeEnd; at++) {
    const digit = HEX_DIGITS[bytes[at] as number] as number
    if (digit < 0) return false
    meaning = meaning * 16 + digit
  }
  return true
}

/** Reads the digits of a reference, and its semicolon if there is one. */
function readNumber (bytes: Buffer, from: number, length: number): boolean {
  const base = ((bytes[from] ?? 0) | 0x20) === LETTER_X ? 16 : 10
  const start = base === 16 ? from + 1 : from
  let end = start
  meaning = 0
  for (; end < length; end++) {
    const digit = HEX_DIGITS[bytes[end] as number] as number
    if (digit < 0 || digit >= base) break
    meaning = Math.min(meaning * base + digit, NOT_ASCII)
  }
  escapeEnd = end < length && bytes[end] === SEMICOLON ? end + 1 : end
  return end > start
}

function readName (bytes: Buffer, start: number, length: number): boolean {
  const last = Math.min(length, start + LONGEST_NAME + 1)
  let end = start
  while (end < last && bytes[end] !== SEMICOLON) end++
  const named = end < last ? NAMES[bytes.toString('latin1', start, end)] : undefined
  if (named === undefined) return false
  meaning = named
  escapeEnd = end + 1
  return true
}
