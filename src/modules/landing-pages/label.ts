import { JsonScanner, JsonSyntaxError, type JsonVisitor } from '../../http/json-scanner.ts'

// Finds the label of a page, which names it in the owner's list.

/** The members that may be the label, in the order of their precedence. */
const NAMES = ['title', 'name', 'headline']
/** Longer than each of the names with its quotes, even if all characters are escaped. */
const MAX_NAME_BYTES = 60

/** In characters (code points). */
export const MAX_LABEL_LENGTH = 200
/** A character has at most this many bytes: two escapes. */
const MAX_CHARACTER_BYTES = 12

const QUOTE = 0x22
/** What is left of a string without an escape that was cut off. */
const WHOLE_CHARACTERS = /^(?:[^\\]|\\u[0-9a-f]{4}|\\[^u])*/i
/** The value of the last member, if it is a string that was cut off. */
const UNFINISHED_STRING = /^[ \t\n\r]*:[ \t\n\r]*"/

/**
 * Finds the first of the outermost members `title`, `name` and `headline` that is a string and not blank, and
 * returns its first characters. Returns null if there is none.
 *
 * @param start the first characters of a valid document. What follows is not searched.
 */
export function findLabel (start: string): string | null {
  const bytes = Buffer.from(start)
  const finder = new LabelFinder(bytes)
  try {
    new JsonScanner(bytes, finder).advance(bytes.length)
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error
    finder.finish() // the document goes on
  }
  return finder.label
}

class LabelFinder implements JsonVisitor {
  readonly #bytes: Buffer
  readonly #labels = new Map<string, string>()
  /** The member that is being scanned, and where its name ends. */
  #name: string | undefined
  #nameEnd = 0

  constructor (bytes: Buffer) {
    this.#bytes = bytes
  }

  get label (): string | null {
    return NAMES.map((name) => this.#labels.get(name)).find((label) => label !== undefined) ?? null
  }

  name (depth: number, start: number, end: number): void {
    if (depth !== 1) return
    const name = end - start > MAX_NAME_BYTES ? undefined
      : JSON.parse(this.#bytes.toString('utf8', start, end)) as string
    this.#name = name
    this.#nameEnd = end
    // Of a name that is repeated, the last value counts, as with JSON.parse.
    if (name !== undefined) this.#labels.delete(name)
  }

  value (depth: number, { start, end }: { readonly start: number, readonly end: number }): void {
    if (depth !== 1) return
    if (this.#bytes[start] === QUOTE) this.#add(start + 1, end - 1)
    this.#name = undefined
  }

  /** Adds the string in which the text ends. */
  finish (): void {
    if (this.#name === undefined) return
    const opening = UNFINISHED_STRING.exec(this.#bytes.toString('utf8', this.#nameEnd))?.[0]
    if (opening !== undefined) this.#add(this.#nameEnd + opening.length, this.#bytes.length)
  }

  #add (start: number, end: number): void {
    if (this.#name === undefined || !NAMES.includes(this.#name)) return
    const text = this.#bytes.toString(
      'utf8',
      start,
      Math.min(end, start + MAX_LABEL_LENGTH * MAX_CHARACTER_BYTES)
    )
    const decoded = JSON.parse(`"${WHOLE_CHARACTERS.exec(text)?.[0] ?? ''}"`) as string
    const label = [...decoded].slice(0, MAX_LABEL_LENGTH).join('').toWellFormed()
    if (label.trim() !== '') this.#labels.set(this.#name, label)
  }
}
