import { colonMessage, digitMessage, escapeMessage, nameMessage, separatorMessage, stringMessage,
  valueMessage, type Opening } from './messages.ts'

// Finds the first reason why the service would refuse a text. The grammar is RFC 8259's, exactly what
// JSON.parse and the service's own scanner accept, and the places of errors are the service's, too.

/** Levels of objects and arrays in a document that the service takes. */
const MAX_DEPTH = 100

/** Where and why a text isn't a document that the service takes. */
export interface JsonError {
  /** A sentence that says what to do. */
  readonly message: string
  /** In UTF-16 units, from 0. */
  readonly offset: number
  /** From 1. Lines end with a line feed. */
  readonly line: number
  /** In UTF-16 units, from 1. */
  readonly column: number
}

/** Returns the first error of a document; undefined if the service takes it. The size isn't checked. */
export function checkJson (text: string): JsonError | undefined {
  try {
    const { start, tooDeepAt } = new Scanner(text).scan()
    if (!'{['.includes(text.charAt(start))) {
      return createError(text, start, 'A document is an object { … } or an array [ … ].')
    }
    if (tooDeepAt !== undefined) {
      return createError(text, tooDeepAt, `A document can have at most ${MAX_DEPTH} levels of { } and [ ].`)
    }
    // JavaScript can hold half of a character, but UTF-8 can't: it would be replaced on the way.
    const surrogate = text.search(/\p{Surrogate}/u)
    if (surrogate === -1) return undefined
    const code = text.charCodeAt(surrogate).toString(16)
    return createError(text, surrogate, `Here is half of a character. Delete it, or write \\u${code}.`)
  } catch (error) {
    if (error instanceof SyntaxFailure) return createError(text, error.offset, error.message)
    throw error
  }
}

function createError (text: string, offset: number, message: string): JsonError {
  return {
    message,
    offset,
    line: countLine(text, offset),
    column: offset - text.lastIndexOf('\n', offset - 1)
  }
}

/** Returns the line of an offset, from 1. */
function countLine (text: string, offset: number): number {
  let line = 1
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line++
  return line
}

class SyntaxFailure extends Error {
  readonly offset: number

  constructor (message: string, offset: number) {
    super(message)
    this.offset = offset
  }
}

/** What may come next. */
type Expected = 'value' | 'firstElement' | 'firstName' | 'name' | 'colon' | 'separator'

const WORDS: Readonly<Record<string, string>> = { t: 'true', f: 'false', n: 'null' }

/** Scans without recursion, because a text may be nested more deeply than the stack allows. */
class Scanner {
  readonly #text: string
  #at = 0
  #expected: Expected = 'value'
  /** The offsets of the brackets that are open. */
  readonly #open: number[] = []
  #tooDeepAt: number | undefined

  constructor (text: string) {
    this.#text = text
  }

  /** @throws {SyntaxFailure} */
  scan (): { start: number, tooDeepAt: number | undefined } {
    this.#skipSpace()
    const start = this.#at
    for (; this.#at < this.#text.length; this.#skipSpace()) this.#token(this.#text.charAt(this.#at))
    if (this.#open.length > 0 || this.#expected !== 'separator') this.#token('')
    return { start, tooDeepAt: this.#tooDeepAt }
  }

  #skipSpace (): void {
    while (isSpace(this.#text.charCodeAt(this.#at))) this.#at++
  }

  /** @param found empty at the end of the text */
  #token (found: string): void {
    switch (this.#expected) {
      case 'firstElement':
        return found === ']' ? this.#close() : this.#value(found)
      case 'value':
        return this.#value(found)
      case 'firstName':
        return found === '}' ? this.#close() : this.#name(found)
      case 'name':
        return this.#name(found)
      case 'colon':
        if (found !== ':') this.#fail(colonMessage())
        this.#at++
        this.#expected = 'value'
        return
      default:
        return this.#separator(found)
    }
  }

  #separator (found: string): void {
    const opening = this.#opening()
    if (opening === undefined) this.#fail(separatorMessage(this.#text, this.#at, opening))
    const isObject = opening.bracket === '{'
    if (found === ',') {
      this.#at++
      this.#expected = isObject ? 'name' : 'value'
    } else if (found === (isObject ? '}' : ']')) this.#close()
    else this.#fail(separatorMessage(this.#text, this.#at, opening))
  }

  #name (found: string): void {
    if (found !== '"') this.#fail(nameMessage(this.#text, this.#at, this.#opening()))
    this.#string()
    this.#expected = 'colon'
  }

  #value (found: string): void {
    if (found === '{' || found === '[') {
      this.#open.push(this.#at)
      if (this.#open.length > MAX_DEPTH) this.#tooDeepAt ??= this.#at
      this.#at++
      this.#expected = found === '{' ? 'firstName' : 'firstElement'
      return
    }
    const word = WORDS[found]
    if (found === '"') this.#string()
    else if (word !== undefined) this.#word(word)
    else if (found === '-' || isDigit(this.#text.charCodeAt(this.#at))) this.#number()
    else this.#fail(valueMessage(this.#text, this.#at, this.#opening()))
    this.#expected = 'separator'
  }

  #close (): void {
    this.#open.pop()
    this.#at++
    this.#expected = 'separator'
  }

  #string (): void {
    const text = this.#text
    for (this.#at++;; this.#at++) {
      const code = text.charCodeAt(this.#at)
      if (code === 0x22) break // "
      if (code === 0x5c) this.#escape() // \
      else if (!(code >= 0x20)) this.#fail(stringMessage(text.charAt(this.#at)))
    }
    this.#at++
  }

  /** Leaves the scanner at the last character of an escape. */
  #escape (): void {
    const letter = this.#text.charAt(++this.#at)
    if (letter !== '' && '"\\/bfnrt'.includes(letter)) return
    if (letter !== 'u') this.#fail(escapeMessage(letter))
    for (let digit = 0; digit < 4; digit++) {
      if (!/[0-9a-f]/i.test(this.#text.charAt(++this.#at))) this.#fail(escapeMessage('u'))
    }
  }

  #word (word: string): void {
    const start = this.#at
    for (const letter of word) {
      if (this.#text[this.#at] !== letter) {
        this.#fail(valueMessage(this.#text, start, this.#opening()))
      }
      this.#at++
    }
  }

  #number (): void {
    if (this.#text[this.#at] === '-') this.#at++
    if (this.#text[this.#at] === '0') this.#at++
    else this.#digits()
    if (this.#text[this.#at] === '.') {
      this.#at++
      this.#digits()
    }
    if (this.#text[this.#at] === 'e' || this.#text[this.#at] === 'E') {
      this.#at++
      if (this.#text[this.#at] === '+' || this.#text[this.#at] === '-') this.#at++
      this.#digits()
    }
  }

  /** At least one. */
  #digits (): void {
    if (!isDigit(this.#text.charCodeAt(this.#at))) this.#fail(digitMessage())
    while (isDigit(this.#text.charCodeAt(this.#at))) this.#at++
  }

  #opening (): Opening | undefined {
    const offset = this.#open.at(-1)
    if (offset === undefined) return undefined
    return { bracket: this.#text.charAt(offset), line: () => countLine(this.#text, offset) }
  }

  #fail (message: string): never {
    throw new SyntaxFailure(message, this.#at)
  }
}

/** Whether a UTF-16 unit is white space between tokens. */
export const isSpace = (code: number): boolean =>
  code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39
