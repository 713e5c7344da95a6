// Reads JSON text without recursion and without building its values. The grammar is RFC 8259's, exactly what
// JSON.parse accepts.

/**
 * `name` is the name of a member, `word` is true, false or null; `open` and `close` are brackets. Colons and
 * commas are checked, but aren't tokens of their own.
 */
export type TokenType = 'name' | 'string' | 'number' | 'word' | 'open' | 'close' | 'end'

/** What may come next. `character`, `escape` and `hexDigit` are parts of strings, `digit` is one of numbers. */
export type Expected = 'value' | 'firstElement' | 'firstName' | 'name' | 'colon' | 'separator' | 'character' |
  'escape' | 'hexDigit' | 'digit'

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
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** What follows of a string up to its end, an escape or an error. Faster than a loop for long runs. */
// eslint-disable-next-line no-control-regex
const PLAIN = /[^"\\\u0000-\u001f]*/y
const SHORT_RUN = 16

/** Reads a text token by token. All offsets are UTF-16 units. */
export class JsonReader {
  readonly text: string
  /** Where the token starts. */
  start = 0
  /** Where the token ends. */
  end = 0
  #expected: Expected = 'value'
  /** The offsets of the open brackets. */
  readonly #open: number[] = []
  #isInObject = false

  /** @param text without a byte order mark */
  constructor (text: string) {
    this.text = text
  }

  /** How many objects and arrays are open. One that the token opens counts, one that it closes doesn't. */
  get depth (): number {
    return this.#open.length
  }

  /**
   * Moves to the next token. After the last one, the type is `end` however often it is called.
   *
   * @throws {JsonSyntaxError}
   */
  next (): TokenType {
    let code = this.#skipSpace()
    if (this.#expected === 'separator') {
      if (this.#open.length === 0) {
        if (this.start < this.text.length) this.#fail('separator')
        return 'end'
      }
      if (code !== COMMA) {
        if (code !== (this.#isInObject ? CLOSE_BRACE : CLOSE_BRACKET)) this.#fail('separator')
        return this.#close()
      }
      this.end++
      code = this.#skipSpace()
      this.#expected = this.#isInObject ? 'name' : 'value'
    } else if (this.#expected === 'colon') {
      if (code !== COLON) this.#fail('colon')
      this.end++
      code = this.#skipSpace()
      this.#expected = 'value'
    }
    switch (this.#expected) {
      case 'value':
        return this.#value(code)
      case 'firstElement':
        return code === CLOSE_BRACKET ? this.#close() : this.#value(code)
      default: // a name
        if (code === CLOSE_BRACE && this.#expected === 'firstName') return this.#close()
        if (code !== QUOTE) this.#fail(this.#expected)
        this.#string()
        this.#expected = 'colon'
        return 'name'
    }
  }

  /** Moves to the end of the object or array that the token opens. @throws {JsonSyntaxError} */
  skip (): void {
    for (const inside = this.depth; this.depth >= inside;) this.next()
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

  #value (code: number): TokenType {
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      this.#open.push(this.end++)
      this.#isInObject = code === OPEN_BRACE
      this.#expected = this.#isInObject ? 'firstName' : 'firstElement'
      return 'open'
    }
    let type: TokenType = 'string'
    if (code === QUOTE) this.#string()
    else if (isDigit(code) || code === MINUS) type = this.#number(code)
    else type = this.#word()
    this.#expected = 'separator'
    return type
  }

  #close (): TokenType {
    this.end++
    this.#open.pop()
    this.#isInObject = this.text.charCodeAt(this.#open.at(-1) ?? this.end) === OPEN_BRACE
    this.#expected = 'separator'
    return 'close'
  }

  #string (): void {
    const { text } = this
    let at = this.end + 1
    for (let run = at;;) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) break
      if (code === BACKSLASH) run = at = this.#escape(at + 1) + 1
      else if (!(code >= SPACE)) this.#fail('character', at)
      else if (at - run < SHORT_RUN) at++
      else {
        PLAIN.lastIndex = at
        PLAIN.test(text)
        at = PLAIN.lastIndex
      }
    }
    this.end = at + 1
  }

  /** Returns the offset of the last character of an escape. */
  #escape (at: number): number {
    const letter = this.text.charAt(at)
    if (letter !== 'u') {
      if (letter === '' || !'"\\/bfnrt'.includes(letter)) this.#fail('escape', at)
      return at
    }
    for (let digit = at + 1; digit <= at + 4; digit++) {
      if (!isHexDigit(this.text.charCodeAt(digit))) this.#fail('hexDigit', digit)
    }
    return at + 4
  }

  #word (): TokenType {
    const first = this.text.charAt(this.start)
    const word = first === 't' ? 'true' : first === 'f' ? 'false' : first === 'n' ? 'null' : ''
    if (word === '') this.#fail('value')
    for (let at = 1; at < word.length; at++) {
      if (this.text[this.start + at] !== word[at]) this.#fail('value', this.start + at)
    }
    this.end = this.start + word.length
    return 'word'
  }

  #number (first: number): TokenType {
    const { text } = this
    if (first === MINUS) this.end++
    if (text.charCodeAt(this.end) === ZERO) this.end++
    else this.#digits()
    if (text.charCodeAt(this.end) === POINT) {
      this.end++
      this.#digits()
    }
    if ((text.charCodeAt(this.end) | 0x20) === 0x65) { // e or E
      const sign = text.charCodeAt(++this.end)
      if (sign === PLUS || sign === MINUS) this.end++
      this.#digits()
    }
    return 'number'
  }

  /** At least one. */
  #digits (): void {
    if (!isDigit(this.text.charCodeAt(this.end))) this.#fail('digit', this.end)
    while (isDigit(this.text.charCodeAt(++this.end)));
  }

  #fail (expected: Expected, offset = this.start): never {
    throw new JsonSyntaxError(this.text, expected, offset, this.start, this.#open.at(-1))
  }
}

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE

const isHexDigit = (code: number): boolean =>
  isDigit(code) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66)

/** @param json a valid JSON string with its quotes */
export const decodeString = (json: string): string =>
  json.includes('\\') ? JSON.parse(json) as string : json.slice(1, -1)
