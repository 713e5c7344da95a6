// Checks JSON text without building its values, so that a large body costs neither memory nor a long turn of
// the event loop. The grammar is RFC 8259's, exactly what JSON.parse accepts.

/** The text isn't JSON. */
export class JsonSyntaxError extends Error {
  /** From 1. */
  readonly line: number
  /** In characters, from 1. */
  readonly column: number

  constructor (bytes: Buffer, offset: number) {
    const before = bytes.subarray(0, offset)
    let line = 1
    for (let at = before.indexOf(LINE_FEED); at !== -1; at = before.indexOf(LINE_FEED, at + 1)) line++
    const column = before.toString('utf8', before.lastIndexOf(LINE_FEED) + 1).length + 1
    super(`line ${line}, column ${column}`)
    this.line = line
    this.column = column
  }
}

/** A value in the text. */
export interface JsonValue {
  /** Offsets in bytes. */
  readonly start: number
  readonly end: number
  /** Levels of objects and arrays: 0 for a string, 1 for a flat object. */
  readonly levels: number
}

/** Called for members of objects that lie at most `REPORTED_DEPTH` deep. */
export interface JsonVisitor {
  /** @param depth 1 for the members of the outermost object. `start` and `end` include the quotes */
  name(depth: number, start: number, end: number): void
  value(depth: number, value: JsonValue): void
}

const REPORTED_DEPTH = 2

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

const WORDS: Readonly<Record<number, Buffer>> = {
  0x74: Buffer.from('true'),
  0x66: Buffer.from('false'),
  0x6e: Buffer.from('null')
}
const ESCAPED = new Set(Buffer.from('"\\/bfnrt'))

/** What may come next. */
const Expect = { value: 0, firstElement: 1, firstName: 2, name: 3, colon: 4, separator: 5 } as const

/** Scans a text in as many steps as the caller likes. */
export class JsonScanner {
  readonly #bytes: Buffer
  readonly #visitor: JsonVisitor
  #at = 0
  #expected: number = Expect.value
  #depth = 0
  /** For each open container, 1 if it is an object. */
  #isObject = new Uint8Array(64)
  /** Of the open value at each reported depth: where it starts, and its deepest level. */
  readonly #starts = new Array<number>(REPORTED_DEPTH + 1).fill(0)
  readonly #deepest = new Array<number>(REPORTED_DEPTH + 1).fill(0)
  #rootEnd = 0

  /** @param bytes valid UTF-8 without a byte order mark */
  constructor (bytes: Buffer, visitor: JsonVisitor) {
    this.#bytes = bytes
    this.#visitor = visitor
  }

  /** The outermost value, when the whole text has been scanned. */
  get root (): JsonValue {
    return { start: this.#starts[0] as number, end: this.#rootEnd, levels: this.#deepest[0] as number }
  }

  /**
   * Scans about `length` more bytes, to the end of a token.
   *
   * @returns whether the whole text has been scanned
   * @throws {JsonSyntaxError}
   */
  advance (length: number): boolean {
    const end = this.#bytes.length
    const until = Math.min(end, this.#at + length)
    while (this.#at < until) {
      const byte = this.#bytes[this.#at] as number
      if (byte === SPACE || byte === LINE_FEED || byte === CARRIAGE_RETURN || byte === TAB) this.#at++
      else this.#token(byte)
    }
    if (this.#at < end) return false
    if (this.#depth > 0 || this.#expected !== Expect.separator) this.#fail(end)
    return true
  }

  #token (byte: number): void {
    switch (this.#expected) {
      case Expect.firstElement:
        return byte === CLOSE_BRACKET ? this.#close() : this.#value(byte)
      case Expect.value:
        return this.#value(byte)
      case Expect.firstName:
        return byte === CLOSE_BRACE ? this.#close() : this.#name(byte)
      case Expect.name:
        return this.#name(byte)
      case Expect.colon:
        if (byte !== COLON) this.#fail()
        this.#at++
        this.#expected = Expect.value
        return
      default:
        return this.#separator(byte)
    }
  }

  #separator (byte: number): void {
    if (this.#depth === 0) this.#fail()
    const inObject = this.#isObject[this.#depth] === 1
    if (byte === COMMA) {
      this.#at++
      this.#expected = inObject ? Expect.name : Expect.value
    } else if (byte === (inObject ? CLOSE_BRACE : CLOSE_BRACKET)) this.#close()
    else this.#fail()
  }

  #name (byte: number): void {
    if (byte !== QUOTE) this.#fail()
    const start = this.#at
    this.#string()
    if (this.#depth <= REPORTED_DEPTH) this.#visitor.name(this.#depth, start, this.#at)
    this.#expected = Expect.colon
  }

  #value (byte: number): void {
    if (this.#depth <= REPORTED_DEPTH) {
      this.#starts[this.#depth] = this.#at
      this.#deepest[this.#depth] = this.#depth
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) return this.#open(byte === OPEN_BRACE)
    if (byte === QUOTE) this.#string()
    else if (WORDS[byte] !== undefined) this.#word(WORDS[byte])
    else this.#number()
    this.#endValue()
  }

  #open (isObject: boolean): void {
    const depth = ++this.#depth
    if (depth === this.#isObject.length) {
      const grown = new Uint8Array(2 * depth)
      grown.set(this.#isObject)
      this.#isObject = grown
    }
    this.#isObject[depth] = isObject ? 1 : 0
    for (let outer = Math.min(depth - 1, REPORTED_DEPTH); outer >= 0; outer--) {
      if ((this.#deepest[outer] as number) >= depth) break
      this.#deepest[outer] = depth
    }
    this.#at++
    this.#expected = isObject ? Expect.firstName : Expect.firstElement
  }

  #close (): void {
    this.#at++
    this.#depth--
    this.#endValue()
  }

  #endValue (): void {
    const depth = this.#depth
    if (depth === 0) this.#rootEnd = this.#at
    if (depth <= REPORTED_DEPTH && this.#isObject[depth] === 1) {
      const levels = this.#deepest[depth] as number - depth
      this.#visitor.value(depth, { start: this.#starts[depth] as number, end: this.#at, levels })
    }
    this.#expected = Expect.separator
  }

  #string (): void {
    const bytes = this.#bytes
    for (let at = this.#at + 1;; at++) {
      const byte = bytes[at]
      if (byte === QUOTE) {
        this.#at = at + 1
        return
      }
      if (byte === BACKSLASH) at = this.#escape(at + 1)
      else if (byte === undefined || byte < SPACE) this.#fail(at)
    }
  }

  /** Returns the offset of the last byte of an escape. */
  #escape (at: number): number {
    const byte = this.#bytes[at] ?? 0
    if (ESCAPED.has(byte)) return at
    if (byte !== LETTER_U) this.#fail(at)
    for (let digit = at + 1; digit <= at + 4; digit++) if (!isHexDigit(this.#bytes[digit])) this.#fail(digit)
    return at + 4
  }

  #word (word: Buffer): void {
    for (const byte of word) {
      if (this.#bytes[this.#at] !== byte) this.#fail()
      this.#at++
    }
  }

  #number (): void {
    if (this.#bytes[this.#at] === MINUS) this.#at++
    if (this.#bytes[this.#at] === ZERO) this.#at++
    else this.#digits()
    if (this.#bytes[this.#at] === POINT) {
      this.#at++
      this.#digits()
    }
    if (((this.#bytes[this.#at] ?? 0) | 0x20) === 0x65) { // e or E
      this.#at++
      const sign = this.#bytes[this.#at]
      if (sign === PLUS || sign === MINUS) this.#at++
      this.#digits()
    }
  }

  /** At least one. */
  #digits (): void {
    if (!isDigit(this.#bytes[this.#at])) this.#fail()
    while (isDigit(this.#bytes[this.#at])) this.#at++
  }

  #fail (at = this.#at): never {
    throw new JsonSyntaxError(this.#bytes, Math.min(at, this.#bytes.length))
  }
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE

const isHexDigit = (byte: number | undefined): boolean =>
  isDigit(byte) || (byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66)
