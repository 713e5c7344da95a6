import { decodeString, type JsonNode } from '#json-text'

/** A name of a member, or the index of an entry. */
export type Step = string | number

/** The way from the document to a field. */
export type Path = readonly Step[]

interface Base {
  /** Stays the same while the field does, also when it moves within its list. */
  readonly id: number
  /** The value exactly as it is written in the document. */
  readonly json: string
}

export interface GroupField extends Base {
  readonly type: 'group'
  readonly members: readonly Member[]
}

export interface Member {
  readonly name: string
  readonly field: Field
}

export interface ListField extends Base {
  readonly type: 'list'
  readonly entries: readonly Field[]
}

export interface TextField extends Base {
  readonly type: 'text'
  readonly text: string
}

/** `raw` is what only its text can show. */
export interface OtherField extends Base {
  readonly type: 'number' | 'switch' | 'empty' | 'raw'
}

/** A part of a document, as a person sees it. A field doesn't change; another one takes its place. */
export type Field = GroupField | ListField | TextField | OtherField

/** Groups and lists that are deeper become raw text. */
const MAX_LEVELS = 8

let lastId = 0

/**
 * Returns the field of a value.
 *
 * @param text the document
 * @param before the field that was at this place. What hasn't changed is taken from it, with its id
 */
export function readField (text: string, value: JsonNode, before?: Field, level = 1): Field {
  const json = text.slice(value.start, value.end)
  if (before?.json === json) return before
  const type = typeOf(value, json, level)
  const id = before?.type === type ? before.id : ++lastId
  if (type === 'text') return { type, id, json, text: decodeString(json) }
  if (type === 'group' && value.type === 'object') {
    const fields =
      new Map(before?.type === type ? before.members.map(({ name, field }) => [name, field]) : [])
    const members = value.members.map(({ name, value }) => ({
      name,
      field: readField(text, value, fields.get(name), level + 1)
    }))
    return { type, id, json, members }
  }
  if (type === 'list' && value.type === 'array') {
    const fields = before?.type === type ? before.entries : []
    const entries = value.elements.map((element, index) => readField(text, element, fields[index], level + 1))
    return { type, id, json, entries }
  }
  return { type: type as OtherField['type'], id, json }
}

function typeOf (value: JsonNode, json: string, level: number): Field['type'] {
  switch (value.type) {
    case 'object':
      return level > MAX_LEVELS || hasDuplicates(value.members) ? 'raw' : 'group'
    case 'array':
      return level > MAX_LEVELS ? 'raw' : 'list'
    case 'string':
      return canBeTyped(json) ? 'text' : 'raw'
    case 'boolean':
      return 'switch'
    case 'null':
      return 'empty'
    default:
      return 'number'
  }
}

const hasDuplicates = (members: readonly { readonly name: string }[]): boolean =>
  new Set(members.map(({ name }) => name)).size < members.length

/** Whether an input keeps every character: it changes carriage returns, unless all line ends are CRLF. */
const canBeTyped = (json: string): boolean =>
  !json.includes('\\') || !/\r(?!\n)|\r\n[^]*(?<!\r)\n|(?<!\r)\n[^]*\r\n/.test(decodeString(json))

/** Returns the field at a path; undefined if there is none. */
export function fieldAt (root: Field, path: Path): Field | undefined {
  let field: Field | undefined = root
  for (const step of path) {
    if (field?.type === 'group') field = field.members.find(({ name }) => name === step)?.field
    else field = field?.type === 'list' ? field.entries[step as number] : undefined
  }
  return field
}

/** Returns the fields from the document to the field with this id, and its path. */
export function findById (root: Field, id: number): { path: Path, trail: readonly Field[] } | undefined {
  if (root.id === id) return { path: [], trail: [root] }
  for (const [step, child] of childrenOf(root)) {
    const found = findById(child, id)
    if (found !== undefined) return { path: [step, ...found.path], trail: [root, ...found.trail] }
  }
  return undefined
}

/** Returns the members or entries of a field. */
export function childrenOf (field: Field): readonly (readonly [step: Step, child: Field])[] {
  if (field.type === 'group') return field.members.map(({ name, field }) => [name, field])
  return field.type === 'list' ? field.entries.map((entry, index) => [index, entry]) : []
}
