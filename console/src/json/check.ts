import { JsonReader, JsonSyntaxError, placeOf } from '#json-text'
import { describeSyntaxError } from './messages.ts'

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

/**
 * Returns the first error of a document; undefined if the service takes it. The size isn't checked.
 *
 * @param isPart whether the text is a part of a document, which can be any value
 */
export function checkJson (text: string, isPart = false): JsonError | undefined {
  try {
    const reader = new JsonReader(text)
    const isDocument = reader.next() === 'open' || isPart
    const { start } = reader
    let tooDeepAt: number | undefined
    while (reader.next() !== 'end') if (reader.depth > MAX_DEPTH) tooDeepAt ??= reader.start
    if (!isDocument) return createError(text, start, 'A document is an object { … } or an array [ … ].')
    if (tooDeepAt !== undefined) {
      return createError(text, tooDeepAt, `A document can have at most ${MAX_DEPTH} levels of { } and [ ].`)
    }
    // JavaScript can hold half of a character, but UTF-8 can't: it would be replaced on the way.
    const surrogate = text.search(/\p{Surrogate}/u)
    if (surrogate === -1) return undefined
    const code = text.charCodeAt(surrogate).toString(16)
    return createError(text, surrogate, `Here is half of a character. Delete it, or write \\u${code}.`)
  } catch (error) {
    if (error instanceof JsonSyntaxError) {
      return createError(text, error.offset, describeSyntaxError(text, error))
    }
    throw error
  }
}

const createError = (text: string, offset: number, message: string): JsonError => ({
  message,
  offset,
  ...placeOf(text, offset)
})
