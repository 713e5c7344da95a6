import { JsonReader, type TokenType } from './reader.ts'

/** A value, and where it stands in its text. All offsets are UTF-16 units. */
export type JsonNode = JsonObject | JsonArray | JsonScalar

interface Place {
  readonly start: number
  readonly end: number
  /** Nested objects and arrays: 0 for a string, 1 for a flat object. */
  readonly levels: number
}

export interface JsonObject extends Place {
  readonly type: 'object'
  /** In the order of the text. Names may be repeated. */
  readonly members: readonly JsonMember[]
}

export interface JsonArray extends Place {
  readonly type: 'array'
  readonly elements: readonly JsonNode[]
}

export interface JsonScalar extends Place {
  readonly type: 'string' | 'number' | 'boolean' | 'null'
}

export interface JsonMember {
  /** Decoded. */
  readonly name: string
  /** Where the opening quote stands. */
  readonly nameStart: number
  /** After the closing quote. */
  readonly nameEnd: number
  readonly value: JsonNode
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] extends readonly (infer Item)[] ? Item[] : T[Key] }
type Container = Writable<JsonObject> | Writable<JsonArray>

/**
 * Reads a text as a tree of its values.
 *
 * @throws {JsonSyntaxError}
 */
export function readJson (text: string): JsonNode {
  const reader = new JsonReader(text)
  const open: Container[] = []
  let root: JsonNode | undefined
  let name = { name: '', nameStart: 0, nameEnd: 0 }
  for (let type = reader.next(); type !== 'end'; type = reader.next()) {
    const outer = open.at(-1)
    if (type === 'name') name = { name: reader.decode(), nameStart: reader.start, nameEnd: reader.end }
    else if (type === 'close') close(open, reader.end)
    else {
      const value = createNode(type, reader)
      if (outer === undefined) root = value
      else if (outer.type === 'object') outer.members.push({ ...name, value })
      else outer.elements.push(value)
      if (value.type === 'object' || value.type === 'array') open.push(value as Container)
    }
  }
  return root as JsonNode
}

function createNode (type: TokenType, { text, start, end }: JsonReader): JsonNode {
  const first = text[start]
  if (first === '{') return { type: 'object', start, end, levels: 1, members: [] }
  if (first === '[') return { type: 'array', start, end, levels: 1, elements: [] }
  const scalar = type === 'string' || type === 'number' ? type : first === 'n' ? 'null' : 'boolean'
  return { type: scalar, start, end, levels: 0 }
}

function close (open: Container[], end: number): void {
  const container = open.pop() as Container
  container.end = end
  const outer = open.at(-1)
  if (outer !== undefined) outer.levels = Math.max(outer.levels, container.levels + 1)
}
