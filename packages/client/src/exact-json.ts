import { JsonReader } from '#json-text'

/** JSON text that is sent unchanged; see `exactJson`. */
export class ExactJson {
  readonly text: string

  constructor (text: string) {
    this.text = text
  }

  /** @throws {TypeError} always: `JSON.stringify` can't embed the text without losing digits */
  toJSON (): never {
    throw new TypeError('exactJson() must be a whole document: inside another value, digits would be lost')
  }
}

/**
 * Marks JSON text as a document to be stored byte for byte. As a JavaScript number, `12345678901234567890`
 * would lose digits, and `1.0` its zero. The result must be a whole document, not a part of another one.
 *
 * @throws {SyntaxError} when the text is not valid JSON
 */
export function exactJson (text: string): ExactJson {
  JSON.parse(text)
  return new ExactJson(text)
}

/** Returns the JSON text of a document. */
export const toJsonText = (document: object): string =>
  document instanceof ExactJson ? document.text : JSON.stringify(document)

export interface JsonMember {
  /** Undefined for the elements of an array. */
  readonly name: string | undefined
  /** The value exactly as it is written. */
  readonly text: string
}

/**
 * Splits the JSON text of an object or array into its members or elements.
 *
 * @param json valid JSON
 */
export function splitMembers (json: string): JsonMember[] {
  const reader = new JsonReader(json)
  const members: JsonMember[] = []
  let name: string | undefined
  reader.next()
  for (let type = reader.next(); reader.depth > 0; type = reader.next()) {
    const { start } = reader
    if (type === 'name') name = reader.decode()
    else {
      if (type === 'open') reader.skip()
      members.push({ name, text: json.slice(start, reader.end) })
    }
  }
  return members
}
