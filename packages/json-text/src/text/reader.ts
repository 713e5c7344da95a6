// Reads JSON text without recursion and without building its values. The grammar is RFC 8259's, exactly what
// JSON.parse accepts.

/**
 * `name` is the name of a member, `word` is true, false or null; `open` and `close` are brackets. Colons and
 * commas are checked, but aren't tokens of their own.
 */
export type TokenType = 'name' | 'string' | 'number' | 'word' | 'open' | 'close' | 'end'

/** What may come next. `character`, `escape` and `hex` are parts of strings, `digit` is one of numbers. */
export type Expected = 'value' | 'name' | 'colon' | 'separator' | 'character' | 'escape' | 'hex' | 'digit'

/** The text isn't JSON. Its message is `line 1, column 2`. */
export class JsonSyntaxError extends Error {
  readonly expected: Expected
  /** What is wrong, in UTF-16 units from 0. */
  readonly offset: number
  /** The start of the token that is wrong. */
  readonly start: number
  /** The offset of the innermost open bracket. */
  readonly opening: number | undefined
  /** From 1. Lines end with a line feed. */
  readonly line: number
  /** In UTF-16 units, from 1. */
  readonly column: number

  constructor (text: string, expected: Expected, offset: number, start: number, opening: number | undefined) {
    const { line, column } = placeOf(text, offset)
    super(`line ${line}, column ${column}`)
    this.expected = expected
    this.offset = offset
    this.start = start
    this.opening = opening
    this.line = line
    this.column = column
  }
}

/** Returns line and column of an offset, from 1. Lines end with a line feed, columns are UTF-16 units. */
export function placeOf (text: string, offset: number): { line: number, column: number } {
  let line = 1
  let lineStart = 0
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', lineStart)) {
    line++
    lineStart = at + 1
  }
  return { line, column: offset - lineStart + 1 }
}

const TAB = 0x09
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const SPACE = 0x20
const QUOTE = 0x22
const PLUS = 0x2b
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const LETTER_U = 0x75
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Returns the offset of the closing quote of a valid string. Without one, returns the length of the text. */
function endOfString (text: string, from: number): number {
  for (let at = text.indexOf('"', from); at !== -1; at = text.indexOf('"', at + 1)) {
    let backslashes = 0
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return text.length
}

const ESCAPED = new Set(Array.from('"\\/bfnrt', (letter) => letter.charCodeAt(0)))

/** What follows of a string up to its end, an escape or an error. Faster than a loop for long runs. */
// eslint-disable-next-line no-control-regex
const PLAIN = /[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*){0,1000}/y
const SHORT_RUN = 12

/** Reads a text token by token. All offsets are UTF-16 units. */
export class JsonReader {
  readonly text: string
  /** Where the token starts. */
  start = 0
  /** Where the token ends. */
  end = 0
  /** How many objects and arrays are open. One that the token opens counts, one that it closes doesn't. */
  depth = 0
  /** The largest `depth` since a caller last set it. */
  deepest = 0
  #expected: 'value' | 'firstElement' | 'firstName' | 'colon' | 'separator' = 'value'
  /** The offsets of the open brackets, up to `depth`. */
  readonly #open: number[] = []
  #isInObject = false

  /** @param text without a byte order mark */
  constructor (text: string) {
    this.text = text
  }

  /**
   * Moves to the next token. After the last one, the type is `end` however often it is called.
   *
   * @throws {JsonSyntaxError}
   */
  next (): TokenType {
    const code = this.#skipSpace()
    switch (this.#expected) {
      case 'separator':
        return code === COMMA && this.depth > 0 ? this.#comma() : this.#closeOrEnd(code)
      case 'colon':
        if (code !== COLON) this.#fail('colon')
        this.end++
        return this.#value(this.#skipSpace())
      case 'firstName':
        return code === CLOSE_BRACE ? this.#close() : this.#name(code)
      case 'firstElement':
        return code === CLOSE_BRACKET ? this.#close() : this.#value(code)
      default: // the outermost value
        return this.#value(code)
    }
  }

  /** Moves to the end of the object or array that the token opens. @throws {JsonSyntaxError} */
  skip (): void {
    for (const inside = this.depth; this.depth >= inside;) this.next()
  }

  /**
   * Like skip(), but several times as fast, for text that is known to be valid: it looks at strings and
   * brackets only. Moves to the end of the text if the object or array has no end.
   */
  skipValid (): void {
    const { text } = this
    let at = this.end
    for (let open = 1; open > 0 && at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) at = endOfString(text, at + 1)
      else if (code === OPEN_BRACE || code === OPEN_BRACKET) open++
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) open--
    }
    this.end = Math.min(at, text.length) - 1
    this.#close()
  }

  /** Decodes the token, which is a name or a string. */
  decode (): string {
    return decodeString(this.text.slice(this.start, this.end))
  }

  /** Moves `start` to the first character of the next token, and returns that character. */
  #skipSpace (): number {
    let code = this.text.charCodeAt(this.end)
    while (code === SPACE || code === LINE_FEED || code === CARRIAGE_RETURN || code === TAB) {
      code = this.text.charCodeAt(++this.end)
    }
    this.start = this.end
    return code
  }

  #comma (): TokenType {
    this.end++
    const code = this.#skipSpace()
    return this.#isInObject ? this.#name(code) : this.#value(code)
  }

  #closeOrEnd (code: number): TokenType {
    if (this.depth > 0 && code === (this.#isInObject ? CLOSE_BRACE : CLOSE_BRACKET)) return this.#close()
    if (this.depth > 0 || this.start < this.text.length) this.#fail('separator')
    return 'end'
  }

  #name (code: number): TokenType {
    if (code !== QUOTE) this.#fail('name')
    this.#string()
    this.#expected = 'colon'
    return 'name'
  }

  #value (code: number): TokenType {
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      this.#open[this.depth++] = this.end++
      if (this.depth > this.deepest) this.deepest = this.depth
      this.#isInObject = code === OPEN_BRACE
      this.#expected = this.#isInObject ? 'firstName' : 'firstElement'
      return 'open'
    }
    this.#expected = 'separator'
    if (code === QUOTE) {
      this.#string()
      return 'string'
    }
    if (isDigit(code) || code === MINUS) {
      this.#number(code)
      return 'number'
    }
    this.#word(code)
    return 'word'
  }

  #close (): TokenType {
    this.end++
    if (--this.depth > 0) {
      this.#isInObject = this.text.charCodeAt(this.#open[this.depth - 1] as number) === OPEN_BRACE
    }
    this.#expected = 'separator'
    return 'close'
  }

  #string (): void {
    const { text } = this
    let at = this.end + 1
    for (const short = at + SHORT_RUN;;) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) break
      if (code === BACKSLASH) at = this.#escape(at + 1) + 1
      else if (!(code >= SPACE)) this.#fail('character', at)
      else at++
      if (at < short) continue
      PLAIN.lastIndex = at
      PLAIN.test(text)
      at = PLAIN.lastIndex
    }
    this.end = at + 1
  }

  /** Returns the offset of the last character of an escape. */
  #escape (at: number): number {
    const letter = this.text.charCodeAt(at)
    if (letter !== LETTER_U) {
      if (!ESCAPED.has(letter)) this.#fail('escape', at)
      return at
    }
    for (let digit = at + 1; digit <= at + 4; digit++) {
      if (!isHexDigit(this.text.charCodeAt(digit))) this.#fail('hex', digit)
    }
    return at + 4
  }

  #word (code: number): void {
    const word = code === 0x74 ? 'true' : code === 0x66 ? 'false' : code === 0x6e ? 'null' : ''
    if (word === '') this.#fail('value')
    for (let at = 1; at < word.length; at++) {
      if (this.text.charCodeAt(this.start + at) !== word.charCodeAt(at)) this.#fail('value', this.start + at)
    }
    this.end += word.length
  }

  #number (first: number): void {
    const { text } = this
    let at = first === MINUS ? this.end + 1 : this.end
    let code = text.charCodeAt(at)
    if (code === ZERO) code = text.charCodeAt(++at)
    else code = text.charCodeAt(at = this.#digits(at))
    if (code === POINT) code = text.charCodeAt(at = this.#digits(at + 1))
    if (code === 0x65 || code === 0x45) { // e or E
      const sign = text.charCodeAt(++at)
      at = this.#digits(sign === PLUS || sign === MINUS ? at + 1 : at)
    }
    this.end = at
  }

  /** Returns the offset after the digits, which are at least one. */
  #digits (at: number): number {
    if (!isDigit(this.text.charCodeAt(at))) this.#fail('digit', at)
    while (isDigit(this.text.charCodeAt(++at)));
    return at
  }

  #fail (expected: Expected, offset = this.start): never {
    throw new JsonSyntaxError(this.text, expected, offset, this.start, this.#open[this.depth - 1])
  }
}

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE

const isHexDigit = (code: number): boolean =>
  isDigit(code) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66)

/** @param json a valid JSON string with its quotes */
export const decodeString = (json: string): string =>
  json.includes('\\') ? JSON.parse(json) as string : json.slice(1, -1)
