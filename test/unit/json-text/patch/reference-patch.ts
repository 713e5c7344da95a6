import { readJson, type JsonNode } from '../../../../packages/json-text/src/index.ts'

// JSON Patch and JSON Merge Patch on parsed values, as simple as the RFCs describe them, to compare with.

/** A scalar is its text, because JSON.parse would lose digits and escapes. */
export type Value = string | Value[] | Map<string, Value>

export const parseValue = (text: string): Value => valueOf(text, readJson(text))

function valueOf (text: string, node: JsonNode): Value {
  if (node.type === 'array') return node.elements.map((element) => valueOf(text, element))
  if (node.type !== 'object') return text.slice(node.start, node.end)
  return new Map(node.members.map(({ name, value }) => [name, valueOf(text, value)]))
}

/** The text of a value, without white space. */
export function format (value: Value): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return `[${value.map(format).join(',')}]`
  return `{${[...value].map(([name, member]) => `${JSON.stringify(name)}:${format(member)}`).join(',')}}`
}

export interface ReferenceOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'move' | 'copy'
  readonly path: readonly string[]
  readonly from: readonly string[]
  readonly value: Value
}

/** The operation can't be applied. */
export class ReferenceError extends Error {}

const fail = (): never => {
  throw new ReferenceError()
}

const indexOf = (name: string): number => /^(0|[1-9]\d*)$/.test(name) ? Number(name) : NaN
const find = (root: Value, path: readonly string[]): Value =>
  path.reduce(
    (value, name) =>
      (value instanceof Map ? value.get(name) : Array.isArray(value) ? value[indexOf(name)] : undefined) ??
        fail(),
    root
  )

/** Applies an operation, and returns the new root. The value itself is changed, too. */
export function applyReference (root: Value, operation: ReferenceOperation): Value {
  const { op, path, from, value } = operation
  if (op === 'copy') {
    return applyReference(root, { ...operation, op: 'add', value: structuredClone(find(root, from)) })
  }
  if (op === 'move') {
    const moved = find(root, from)
    if (from.every((name, depth) => name === path[depth])) return from.length === path.length ? root : fail()
    const rest = applyReference(root, { ...operation, op: 'remove', path: from })
    return applyReference(rest, { ...operation, op: 'add', value: moved })
  }
  const name = path.at(-1)
  if (name === undefined) return op === 'remove' ? fail() : value
  if (op !== 'add') find(root, path) // has to be there
  const parent = find(root, path.slice(0, -1))
  if (typeof parent === 'string') return fail()
  if (parent instanceof Map) {
    if (op === 'remove') parent.delete(name)
    else parent.set(name, value)
    return root
  }
  const index = name === '-' ? parent.length : indexOf(name)
  if (!(index <= parent.length)) fail()
  parent.splice(index, op === 'add' ? 0 : 1, ...op === 'remove' ? [] : [value])
  return root
}

/** RFC 7396, 2. */
export function mergeReference (target: Value | undefined, patch: Value): Value {
  if (!(patch instanceof Map)) return patch
  const merged = new Map(target instanceof Map ? target : [])
  for (const [name, value] of patch) {
    if (value === 'null') merged.delete(name)
    else merged.set(name, mergeReference(merged.get(name), value))
  }
  return merged
}
