import { formatPointer, readJson, type JsonNode } from '#json-text'
import { childrenOf, type Field, type GroupField, type ListField, type Path, type Step } from './field.ts'

// Each edit is an operation of a JSON Patch as text, because a number in JavaScript would lose digits.

/** How the entries of a list, or the members of a group, change their places. */
export type Rearrangement =
  | { readonly kind: 'insert' | 'remove', readonly parent: Path, readonly at: Step }
  | { readonly kind: 'move', readonly parent: Path, readonly from: number, readonly to: number }
  | { readonly kind: 'rename', readonly parent: Path, readonly from: string, readonly to: string }

export interface Edit {
  /** An operation (RFC 6902). */
  readonly operation: string
  /** What is changed. */
  readonly path: Path
  readonly rearrangement?: Rearrangement
}

const pointerOf = (path: Path): string => JSON.stringify(formatPointer(path.map(String)))

/** @param json the new value */
export const replaceValue = (path: Path, json: string): Edit => ({
  path,
  operation: `{"op":"replace","path":${pointerOf(path)},"value":${json}}`
})

/** Adds a member to a group, or an entry to a list, which has `at` entries. */
export const addValue = (parent: Path, at: Step, json: string): Edit => ({
  path: [...parent, at],
  operation: `{"op":"add","path":${pointerOf([...parent, at])},"value":${json}}`,
  rearrangement: { kind: 'insert', parent, at }
})

export function removeValue (path: Path): Edit {
  const parent = path.slice(0, -1)
  return {
    path,
    operation: `{"op":"remove","path":${pointerOf(path)}}`,
    rearrangement: { kind: 'remove', parent, at: path.at(-1) as Step }
  }
}

export const moveEntry = (parent: Path, from: number, to: number): Edit => ({
  path: [...parent, to],
  operation: `{"op":"move","from":${pointerOf([...parent, from])},"path":${pointerOf([...parent, to])}}`,
  rearrangement: { kind: 'move', parent, from, to }
})

/** Renames a member. A `move` would put it at the end, so the group is replaced by itself. */
export function renameMember (group: GroupField, parent: Path, from: string, to: string): Edit {
  const node = readJson(group.json)
  const member = node.type === 'object' ? node.members.find(({ name }) => name === from) : undefined
  if (member === undefined) throw new Error(`There is no ${from}`)
  const json = group.json.slice(0, member.nameStart) + JSON.stringify(to) + group.json.slice(member.nameEnd)
  const { operation } = replaceValue(parent, json)
  return { operation, path: [...parent, to], rearrangement: { kind: 'rename', parent, from, to } }
}

/** Returns what undoes a rearrangement. */
export function invert (rearrangement: Rearrangement): Rearrangement {
  switch (rearrangement.kind) {
    case 'insert':
      return { ...rearrangement, kind: 'remove' }
    case 'remove':
      return { ...rearrangement, kind: 'insert' }
    default:
      return { ...rearrangement, from: rearrangement.to, to: rearrangement.from } as Rearrangement
  }
}

/**
 * Returns the fields with the places of a rearrangement, so that each keeps its id. They have the values of
 * before, and a place for what is inserted.
 */
export function rearrange (root: Field, rearrangement: Rearrangement, depth = 0): Field {
  const step = rearrangement.parent[depth]
  if (step === undefined) return rearrangeChildren(root, rearrangement)
  const change = (at: Step, child: Field) => at === step ? rearrange(child, rearrangement, depth + 1) : child
  // Without its text, the field is read anew.
  if (root.type === 'group') {
    const members = root.members.map(({ name, field }) => ({ name, field: change(name, field) }))
    return { ...root, json: '', members }
  }
  return root.type === 'list'
    ? { ...root, json: '', entries: root.entries.map((entry, at) => change(at, entry)) }
    : root
}

let placeholders = 0
/** Stands for a field that has not been read yet. */
const createPlaceholder = (): Field => ({ type: 'raw', id: --placeholders, json: '' })

function rearrangeChildren (field: Field, rearrangement: Rearrangement): Field {
  if (field.type === 'group' && rearrangement.kind === 'rename') {
    const { from, to } = rearrangement
    const members = field.members.map((member) => member.name === from ? { ...member, name: to } : member)
    return { ...field, json: '', members }
  }
  if (field.type !== 'list' || rearrangement.kind === 'rename') return { ...field, json: '' }
  const entries = [...field.entries]
  if (rearrangement.kind === 'move') {
    entries.splice(rearrangement.to, 0, ...entries.splice(rearrangement.from, 1))
  } else if (rearrangement.kind === 'insert') {
    entries.splice(rearrangement.at as number, 0, createPlaceholder())
  } else entries.splice(rearrangement.at as number, 1)
  return { ...field, json: '', entries }
}

/**
 * Returns a new entry for a list, like its last one: texts are empty and numbers 0, unless all entries (two
 * or more) have the same. Of a list in it, the first entry stays. Where the last entry has null or an empty
 * list, the new one is like the last entry that has more.
 *
 * @param list with at least one entry
 */
export const createEntry = ({ entries }: ListField): string =>
  clearValue((entries.at(-1) as Field).json, entries.slice(0, -1))

/** @param others the same value in other entries */
function clearValue (json: string, others: readonly Field[]): string {
  const root = readJson(json)
  const pieces: string[] = []
  let end = 0
  const put = (node: JsonNode, replacement: string) => {
    pieces.push(json.slice(end, node.start), replacement)
    end = node.end
  }
  const clear = (node: JsonNode, peers: readonly Field[]) => {
    const own = json.slice(node.start, node.end)
    const isEmpty = node.type === 'null' || (node.type === 'array' && node.elements.length === 0)
    if (isEmpty) {
      const fuller = peers.findLast((peer) => peer.type !== 'empty' && !isEmptyList(peer))
      if (fuller !== undefined) put(node, clearValue(fuller.json, []))
    } else if (node.type === 'object') {
      for (const { name, value } of node.members) clear(value, peers.flatMap((peer) => memberOf(peer, name)))
    } else if (node.type === 'array') {
      const [first] = node.elements as [JsonNode]
      clear(first, [])
      pieces.push(json.slice(end, first.end))
      end = node.elements.at(-1)?.end ?? first.end
    } else {
      const isShared = peers.length > 0 && peers.length === others.length && node !== root &&
        peers.every((peer) => peer.json === own)
      if (isShared) return
      if (node.type === 'string') put(node, '""')
      else if (node.type === 'number') put(node, '0')
    }
  }
  clear(root, others)
  return pieces.join('') + json.slice(end)
}

const isEmptyList = (field: Field): boolean => field.type === 'list' && field.entries.length === 0

/** Returns the member of this name, if there is one. */
const memberOf = (field: Field, name: string): readonly Field[] =>
  childrenOf(field).flatMap(([step, child]) => step === name ? [child] : [])

/** Returns the JSON of a text, with as few escapes as possible. */
export const encodeText = (text: string): string => JSON.stringify(text)

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Returns the JSON of what is typed for a number, digit by digit; or a sentence that says what to write. */
export function parseNumber (typed: string): { readonly json: string } | { readonly message: string } {
  const text = typed.trim().replace('\u2212', '-')
  if (NUMBER.test(text)) return { json: text }
  if (text === '') return { message: 'Write a number, such as 10.50.' }
  const guess = guessNumber(text)
  if (guess === undefined) return { message: 'Write digits only, such as 10.50.' }
  const [, whole, fraction] = /^\D*(\d+),(\d{3})\D*$/.exec(text) ?? []
  const point = /^\D*\d+,\d{1,2}\D*$/.test(text) ? ', with a point' : ''
  return { message: `Write ${whole === undefined ? '' : `${whole}.${fraction} or `}${guess}${point}.` }
}

/** Returns the number that was probably meant. */
function guessNumber (text: string): string | undefined {
  // The rightmost of two different separators, or one with one or two digits behind it, is the decimal one.
  const plain = text.replace(/[\s'’_]/g, '')
  const [, sign = '', digits = ''] = /^\D*?([+-]?)(\d[\d.,]*|[.,]\d+)\D*$/.exec(plain) ?? []
  if (digits === '') return undefined
  const last = Math.max(digits.lastIndexOf('.'), digits.lastIndexOf(','))
  const separators = digits.match(/[.,]/g) ?? []
  const isDecimal = separators.length === 1 ? digits.charAt(last) === '.' || digits.length - last !== 4
    : separators.length > 1 && new Set(separators).size > 1
  const whole = (isDecimal ? digits.slice(0, last) : digits).replace(/[.,]/g, '').replace(/^0+(?=\d)/, '')
  const fraction = isDecimal ? digits.slice(last + 1) : ''
  const guess = `${sign === '-' ? '-' : ''}${whole === '' ? '0' : whole}${
    fraction === '' ? '' : `.${fraction}`
  }`
  return NUMBER.test(guess) ? guess : undefined
}
