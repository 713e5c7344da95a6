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
  const members: JsonMember[] = []
  const start = skipSpace(json, 0)
  const isObject = json[start] === '{'
  let at = skipSpace(json, start + 1)
  while (at < json.length && json[at] !== '}' && json[at] !== ']') {
    let name: string | undefined
    if (isObject) {
      const end = findStringEnd(json, at)
      name = JSON.parse(json.slice(at, end)) as string
      at = skipSpace(json, skipSpace(json, end) + 1)
    }
    const end = findValueEnd(json, at)
    members.push({ name, text: json.slice(at, end) })
    at = skipSpace(json, end)
    if (json[at] === ',') at = skipSpace(json, at + 1)
  }
  return members
}

function skipSpace (json: string, at: number): number {
  while (' \n\r\t'.includes(json.charAt(at)) && at < json.length) at++
  return at
}

function findStringEnd (json: string, at: number): number {
  for (at++; json[at] !== '"'; at++) {
    if (json[at] === '\\') at++
  }
  return at + 1
}

function findValueEnd (json: string, at: number): number {
  let depth = 0
  do {
    const character = json[at]
    if (character === '"') {
      at = findStringEnd(json, at)
    } else if (character === '{' || character === '[') {
      depth++
      at++
    } else if (character === '}' || character === ']') {
      depth--
      at++
    } else if (depth > 0) {
      at++
    } else {
      while (at < json.length && !',]} \n\r\t'.includes(json.charAt(at))) at++
    }
  } while (depth > 0)
  return at
}
