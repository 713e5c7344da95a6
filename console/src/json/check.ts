import { JsonReader, JsonSyntaxError, placeOf } from '#json-text'
import { describeStart, describeSyntaxError } from './messages.ts'

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
  const start = text.search(/[^ \t\n\r]/)
  if (!isPart && start !== -1 && !'{['.includes(text.charAt(start))) {
    return createError(text, start, describeStart(text, start))
  }
  try {
    const reader = new JsonReader(text)
    let tooDeepAt: number | undefined
    while (reader.next() !== 'end') if (reader.depth > MAX_DEPTH) tooDeepAt ??= reader.start
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

/**
 * Finds the first name that its object has already: programs that read the document use only one of the
 * values. The service takes it.
 *
 * @param text a document without errors
 */
export function findRepeatedName (text: string): JsonError | undefined {
  const reader = new JsonReader(text)
  /** The names of the open objects, with their places. */
  const open: Map<string, number>[] = []
  for (let type = reader.next(); type !== 'end'; type = reader.next()) {
    if (type === 'open') open.push(new Map())
    else if (type === 'close') open.pop()
    else if (type === 'name') {
      const names = open.at(-1) as Map<string, number>
      const name = reader.decode()
      const first = names.get(name)
      if (first === undefined) names.set(name, reader.start)
      else {
        return createError(
          text,
          reader.start,
          `This name is in line ${placeOf(text, first).line}, too. Programs use only one of the two values.`
        )
      }
    }
  }
  return undefined
}

const createError = (text: string, offset: number, message: string): JsonError => ({
  message,
  offset,
  ...placeOf(text, offset)
})
