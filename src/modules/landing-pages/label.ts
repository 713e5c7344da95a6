import { JsonReader, JsonSyntaxError } from '#json-text'

// Finds the label of a page, which names it in the owner's list.

/** The members that may be the label, in the order of their precedence. */
const NAMES = ['title', 'name', 'headline']
/** Longer than each of the names with its quotes, even if all characters are escaped. */
const MAX_NAME_LENGTH = 60

/** Characters of a document in which its label is looked for. */
export const START_LENGTH = 16 * 1024

/** In characters (code points). */
export const MAX_LABEL_LENGTH = 200
/** A character is at most two escapes. */
const MAX_CHARACTER_LENGTH = 12

/** What is left of a string without an escape that was cut off. */
const WHOLE_CHARACTERS = /^(?:[^\\]|\\u[0-9a-f]{4}|\\[^u])*/i

/**
 * Finds the first of the outermost members `title`, `name` and `headline` that is a string and not blank, and
 * returns its first characters. Returns null if there is none.
 *
 * @param start the first characters of a valid document. What follows is not searched.
 */
export function findLabel (start: string): string | null {
  const reader = new JsonReader(start)
  const labels = new Map<string, string | null>()
  let name: string | undefined
  const addString = (end: number) => {
    if (reader.depth === 1 && name !== undefined && start[reader.start] === '"') {
      labels.set(name, toLabel(start.slice(reader.start + 1, end)))
    }
  }
  try {
    for (let type = reader.next(); type !== 'end'; type = reader.next()) {
      if (type === 'open' && reader.depth > 1) reader.skipValid()
      if (reader.depth !== 1) continue
      if (type === 'name') {
        name = reader.end - reader.start > MAX_NAME_LENGTH ? undefined : reader.decode()
        // Of a name that is repeated, the last value counts, as with JSON.parse.
        if (name !== undefined) labels.delete(name)
      } else {
        addString(reader.end - 1)
        name = undefined
      }
    }
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error
    addString(start.length) // the document goes on
  }
  return NAMES.map((name) => labels.get(name)).find((label) => label != null) ?? null
}

/** Returns the label that is stored. PostgreSQL's text has no NUL. */
export const labelOf = (document: string): string | null =>
  findLabel(document.slice(0, START_LENGTH))?.replaceAll('\0', '\uFFFD') ?? null

/** Returns null if the string is blank. @param json a string without its quotes, which may be cut off */
function toLabel (json: string): string | null {
  const whole = WHOLE_CHARACTERS.exec(json.slice(0, MAX_LABEL_LENGTH * MAX_CHARACTER_LENGTH))?.[0] ?? ''
  const characters = [...JSON.parse(`"${whole}"`) as string]
  const label = characters.slice(0, MAX_LABEL_LENGTH).join('').toWellFormed()
  return label.trim() === '' ? null : label
}
