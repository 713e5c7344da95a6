import { createHash } from 'node:crypto'
import { createScanner } from 'jsonc-parser'

// Documents are kept exactly as they were sent, so the slice of the request's text that held one is what is stored.

// Values of the library's SyntaxKind, a const enum that can't be imported where each file is compiled by itself.
const OPEN_BRACE = 1
const CLOSE_BRACE = 2
const OPEN_BRACKET = 3
const CLOSE_BRACKET = 4
const COMMA = 5
const END = 17

/** A document found in a request: its text as sent and what kind of JSON value it is. */
export interface FoundDocument {
  readonly text: string
  readonly isContainer: boolean
  /** Levels of objects and arrays, 1 for a flat one. */
  readonly depth: number
}

type Found = FoundDocument | undefined

/**
 * Finds `current_data` in a request's JSON text: at the top, or else inside of `landing_page`. Of a name given twice the
 * last one counts, as with JSON.parse.
 *
 * @param body text that JSON.parse accepts; anything else gives an arbitrary answer
 * @returns undefined when there is none
 */
export function findDocument (body: string): Found {
  const tokens = new Tokens(body)
  if (tokens.kind !== OPEN_BRACE) return undefined
  let own: Found
  let wrapped: Found
  tokens.eachMember((name) => {
    if (name === 'current_data') own = tokens.value()
    else if (name === 'landing_page') {
      wrapped = undefined
      if (tokens.kind !== OPEN_BRACE) return
      tokens.eachMember((inner) => { if (inner === 'current_data') wrapped = tokens.value() })
    }
  })
  return own ?? wrapped
}

/** SHA-256 of a document's bytes, base64url: what ETags are made of. */
export const contentHash = (document: string | Buffer): string => createHash('sha256').update(document).digest('base64url')

/** Walks over JSON text that is known to be valid. */
class Tokens {
  readonly #scanner
  readonly #text: string
  kind: number

  constructor (text: string) {
    this.#text = text
    this.#scanner = createScanner(text, true)
    this.kind = this.#scanner.scan()
  }

  next (): void {
    this.kind = this.#scanner.scan()
  }

  /** At `{`: calls `visit` at each member's value, which it may consume with value(), and leaves behind `}`. */
  eachMember (visit: (name: string) => void): void {
    this.next()
    while (this.kind !== CLOSE_BRACE && this.kind !== END) {
      const name = this.#scanner.getTokenValue() // escapes decoded: "current\u005fdata" is the same name
      this.next() // the colon
      this.next()
      const start = this.#scanner.getTokenOffset()
      visit(name)
      if (this.#scanner.getTokenOffset() === start) this.value()
      if (this.kind === COMMA) this.next()
    }
    this.next()
  }

  /** At a value: leaves behind it. Counts levels without recursion, because a request may have very many. */
  value (): FoundDocument {
    const start = this.#scanner.getTokenOffset()
    const isContainer = this.kind === OPEN_BRACE || this.kind === OPEN_BRACKET
    let level = 0
    let depth = 0
    let end
    do {
      if (this.kind === OPEN_BRACE || this.kind === OPEN_BRACKET) depth = Math.max(depth, ++level)
      else if (this.kind === CLOSE_BRACE || this.kind === CLOSE_BRACKET) level--
      end = this.#scanner.getTokenOffset() + this.#scanner.getTokenLength()
      this.next()
    } while (level > 0 && this.kind !== END)
    return { text: this.#text.slice(start, end), isContainer, depth }
  }
}
