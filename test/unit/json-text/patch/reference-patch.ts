import { readJson, type JsonNode } from '../../../../packages/json-text/src/index.ts'

// JSON Patch and JSON Merge Patch on parsed values, as simple as the RFCs describe them, to compare with.

/** A scalar is its text. The entries of an array have no names. */
export type Tree = string | Container

interface Container {
  readonly type: 'array' | 'object'
  readonly entries: [name: string, value: Tree][]
}

/** Parses a text. The tree has what JSON.parse would lose: digits, escapes, order and repeated names. */
export const parseTree = (text: string): Tree => treeOf(text, readJson(text))

function treeOf (text: string, node: JsonNode): Tree {
  const { type } = node
  if (type === 'array') return { type, entries: node.elements.map((value) => ['', treeOf(text, value)]) }
  if (type !== 'object') return text.slice(node.start, node.end)
  return { type, entries: node.members.map(({ name, value }) => [name, treeOf(text, value)]) }
}

export interface ReferenceOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'move' | 'copy'
  readonly path: readonly string[]
  readonly from: readonly string[]
  readonly value: Tree
}

/** The operation can't be applied. */
export class ReferenceError extends Error {}

const fail = (): never => {
  throw new ReferenceError()
}

/** Applies an operation, and returns the new root. The tree itself is changed, too. */
export function applyReference (root: Tree, { op, path, from, value }: ReferenceOperation): Tree {
  switch (op) {
    case 'add':
      return add(root, path, value)
    case 'remove':
      return remove(root, path)
    case 'replace': {
      if (path.length === 0) return value
      const [entries, index] = placeOf(root, path)
      entries[index] = [entries[index]?.[0] as string, value]
      return root
    }
    case 'copy':
      return add(root, path, structuredClone(find(root, from)))
    case 'move': {
      const moved = find(root, from)
      if (from.every((name, depth) => name === path[depth])) {
        return from.length === path.length ? root : fail()
      }
      return add(remove(root, from), path, moved)
    }
  }
}

function add (root: Tree, path: readonly string[], value: Tree): Tree {
  if (path.length === 0) return value
  const parent = find(root, path.slice(0, -1))
  const name = path.at(-1) as string
  if (typeof parent === 'string') return fail()
  const { type, entries } = parent
  if (type === 'array') {
    const index = name === '-' ? entries.length : arrayIndex(name)
    if (!(index <= entries.length)) fail()
    entries.splice(index, 0, ['', value])
  } else {
    const known = entries.some(([other]) => other === name)
    entries[known ? indexIn(parent, name) : entries.length] = [name, value]
  }
  return root
}

function remove (root: Tree, path: readonly string[]): Tree {
  const [entries, index] = placeOf(root, path)
  entries.splice(index, 1)
  return root
}

function find (root: Tree, path: readonly string[]): Tree {
  if (path.length === 0) return root
  const [entries, index] = placeOf(root, path)
  return entries[index]?.[1] as Tree
}

/** Returns the entries of the container that a path leads into, and the index of its last name. */
function placeOf (root: Tree, path: readonly string[]): [Container['entries'], number] {
  if (path.length === 0) return fail()
  const parent = find(root, path.slice(0, -1))
  return [typeof parent === 'string' ? fail() : parent.entries, indexIn(parent, path.at(-1) as string)]
}

function indexIn (parent: Tree, name: string): number {
  if (typeof parent === 'string') return fail()
  const { type, entries } = parent
  if (type === 'array') return arrayIndex(name) < entries.length ? arrayIndex(name) : fail()
  const places = entries.flatMap(([other], index) => other === name ? [index] : [])
  return places.length === 1 ? places[0] as number : fail()
}

const arrayIndex = (name: string): number => /^(0|[1-9]\d*)$/.test(name) ? Number(name) : NaN

/** RFC 7396, 2. */
export function mergeReference (target: Tree | undefined, patch: Tree): Tree {
  if (typeof patch === 'string' || patch.type === 'array') return patch
  if (new Set(patch.entries.map(([name]) => name)).size < patch.entries.length) fail()
  const merged: Container = {
    type: 'object',
    entries: typeof target === 'object' && target.type === 'object' ? [...target.entries] : []
  }
  for (const [name, value] of patch.entries) {
    const known = merged.entries.some(([other]) => other === name)
    const index = known ? indexIn(merged, name) : merged.entries.length
    if (value === 'null') merged.entries.splice(index, 1)
    else merged.entries[index] = [name, mergeReference(merged.entries[index]?.[1], value)]
  }
  return merged
}
