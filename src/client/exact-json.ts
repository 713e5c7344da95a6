/** JSON text that is sent as it is; see `exactJson`. */
export class ExactJson {
  readonly text: string

  constructor (text: string) {
    this.text = text
  }

  /** @throws {TypeError} because JSON.stringify, which calls it, would lose what the text is given for */
  toJSON (): never {
    throw new TypeError('exactJson is for whole documents: inside of another value its digits would be lost')
  }
}

/**
 * A whole document given as JSON text, to be kept byte for byte: JavaScript's numbers would lose the digits of
 * `12345678901234567890` and the zero of `1.0`. Inside of another document it is refused with a `TypeError`.
 *
 * @throws {SyntaxError} when it is no JSON
 */
export function exactJson (text: string): ExactJson {
  JSON.parse(text)
  return new ExactJson(text)
}

/** JSON text of a document that may be text already. */
export const jsonText = (document: object): string => document instanceof ExactJson ? document.text : JSON.stringify(document)

/** Texts of the members of an object or the elements of an array, in order. `json` must be valid. */
export function membersOf (json: string): { name: string | undefined, text: string }[] {
  const members: { name: string | undefined, text: string }[] = []
  const start = skipSpace(json, 0)
  const isObject = json[start] === '{'
  let at = skipSpace(json, start + 1)
  while (at < json.length && json[at] !== '}' && json[at] !== ']') {
    let name: string | undefined
    if (isObject) {
      const end = endOfString(json, at)
      name = JSON.parse(json.slice(at, end)) as string
      at = skipSpace(json, skipSpace(json, end) + 1)
    }
    const end = endOfValue(json, at)
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

function endOfString (json: string, at: number): number {
  for (at++; json[at] !== '"'; at++) {
    if (json[at] === '\\') at++
  }
  return at + 1
}

function endOfValue (json: string, at: number): number {
  let depth = 0
  do {
    const character = json[at]
    if (character === '"') {
      at = endOfString(json, at)
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
