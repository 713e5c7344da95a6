// Finds the values of a JSON text in one pass, without recursion and without building them.

const TAB = 0x09
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Numbers for each value: its first byte, the byte after its last, the next id outside of it, its levels. */
export const FIELDS = 4

/** How a text is spaced, for members that have no neighbour to imitate. */
export interface Style {
  /** The first colon, with the white space around it. */
  readonly colon: Buffer
  /** The white space after the first comma that doesn't end its line. */
  readonly comma: Buffer
}

/** Writes down values in the order in which they begin. */
class ValueTable {
  #numbers = new Int32Array(1024)
  #count = 0
  readonly #open: number[] = []

  add (start: number, end: number): void {
    const at = FIELDS * this.#count++
    if (at === this.#numbers.length) {
      const grown = new Int32Array(2 * at)
      grown.set(this.#numbers)
      this.#numbers = grown
    }
    this.#numbers[at] = start
    this.#numbers[at + 1] = end
    this.#numbers[at + 2] = this.#count
  }

  open (start: number): void {
    this.#open.push(this.#count)
    this.add(start, 0)
  }

  close (end: number): void {
    const at = FIELDS * (this.#open.pop() as number)
    const levels = this.#numbers[at + 3] as number + 1
    this.#numbers[at + 1] = end
    this.#numbers[at + 2] = this.#count
    this.#numbers[at + 3] = levels
    const outer = this.#open.at(-1)
    if (outer === undefined) return
    const outerLevels = FIELDS * outer + 3
    if (this.#numbers[outerLevels] as number < levels) this.#numbers[outerLevels] = levels
  }

  numbers (): Int32Array {
    return this.#numbers.slice(0, FIELDS * this.#count)
  }
}

/**
 * Finds all values of a text.
 *
 * @param bytes valid JSON
 * @returns FIELDS numbers for each value
 */
export function scanValues (bytes: Buffer): { values: Int32Array, style: Style } {
  const table = new ValueTable()
  let colon: Buffer | undefined
  let comma: Buffer | undefined
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at] as number
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) table.open(at++)
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) table.close(++at)
    else if (byte === COLON) {
      colon ??= bytes.subarray(at - spaceBefore(bytes, at), at + 1 + spaceAfter(bytes, at))
      at++
    } else if (byte === COMMA) {
      comma ??= spaceInLine(bytes, at)
      at++
    } else if (byte <= SPACE) at++
    else {
      const end = byte === QUOTE ? endOfString(bytes, at) : endOfWord(bytes, at)
      table.add(at, end)
      at = end
    }
  }
  colon ??= Buffer.of(COLON)
  return {
    values: table.numbers(),
    style: { colon, comma: comma ?? colon.subarray(colon.indexOf(COLON) + 1) }
  }
}

function spaceBefore (bytes: Buffer, at: number): number {
  let length = 0
  while (bytes[at - length - 1] as number <= SPACE) length++
  return length
}

function spaceAfter (bytes: Buffer, at: number): number {
  let length = 0
  while (bytes[at + length + 1] as number <= SPACE) length++
  return length
}

/** The white space after a comma, unless the line ends there. */
function spaceInLine (bytes: Buffer, comma: number): Buffer | undefined {
  let end = comma + 1
  for (; bytes[end] === SPACE || bytes[end] === TAB; end++);
  return bytes[end] === LINE_FEED || bytes[end] === CARRIAGE_RETURN ? undefined
    : bytes.subarray(comma + 1, end)
}

function endOfString (bytes: Buffer, start: number): number {
  let at = start + 1
  for (; bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++
  return at + 1
}

/** The end of a number, true, false or null. */
function endOfWord (bytes: Buffer, start: number): number {
  let at = start + 1
  for (; at < bytes.length; at++) {
    const byte = bytes[at] as number
    if (byte <= 0x20 || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) break
  }
  return at
}
