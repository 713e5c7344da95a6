import type { JsonTree } from './json-tree.ts'

// JSON Patch and JSON Merge Patch on parsed values, as simple as the RFCs describe them, to compare with.

export interface ReferenceOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'move' | 'copy'
  readonly path: readonly string[]
  readonly from?: readonly string[]
  readonly value?: JsonTree
}

/** The operation can't be applied. */
export class ReferenceError extends Error {}

const fail = (): never => {
  throw new ReferenceError()
}

/** Applies an operation, and returns the new root. The tree itself is changed, too. */
export function applyReference (
  root: JsonTree,
  { op, path, from = [], value }: ReferenceOperation
): JsonTree {
  switch (op) {
    case 'add':
      return add(root, path, value as JsonTree)
    case 'remove':
      remove(root, path)
      return root
    case 'replace': {
      find(root, path)
      if (path.length === 0) return value as JsonTree
      const index = indexIn(find(root, path.slice(0, -1)), path.at(-1) as string)
      put(find(root, path.slice(0, -1)), index, value as JsonTree)
      return root
    }
    case 'copy':
      return add(root, path, structuredClone(find(root, from)))
    case 'move': {
      const moved = find(root, from)
      if (from.every((name, depth) => name === path[depth])) {
        return from.length === path.length ? root : fail()
      }
      remove(root, from)
      return add(root, path, moved)
    }
  }
}

function add (root: JsonTree, path: readonly string[], value: JsonTree): JsonTree {
  if (path.length === 0) return value
  const parent = find(root, path.slice(0, -1))
  const name = path.at(-1) as string
  if (parent.kind === 'array') {
    const index = name === '-' ? parent.items.length : arrayIndex(name)
    if (!(index <= parent.items.length)) fail()
    parent.items.splice(index, 0, value)
  } else if (parent.kind === 'object') {
    const same = parent.members.filter((member) => member.name === name)
    if (same.length > 1) fail()
    if (same[0] !== undefined) same[0].value = value
    else parent.members.push({ name, value, start: 0 })
  } else fail()
  return root
}

function remove (root: JsonTree, path: readonly string[]): void {
  if (path.length === 0) fail()
  const parent = find(root, path.slice(0, -1))
  const index = indexIn(parent, path.at(-1) as string)
  if (parent.kind === 'array') parent.items.splice(index, 1)
  if (parent.kind === 'object') parent.members.splice(index, 1)
}

export function find (root: JsonTree, path: readonly string[]): JsonTree {
  let tree = root
  for (const name of path) {
    const index = indexIn(tree, name)
    tree = (tree.kind === 'array' ? tree.items[index] : tree.kind === 'object' ? tree.members[index]?.value
      : undefined) as JsonTree
  }
  return tree
}

function put (parent: JsonTree, index: number, value: JsonTree): void {
  if (parent.kind === 'array') parent.items[index] = value
  if (parent.kind === 'object') (parent.members[index] as { value: JsonTree }).value = value
}

function indexIn (parent: JsonTree, name: string): number {
  if (parent.kind === 'array') return arrayIndex(name) < parent.items.length ? arrayIndex(name) : fail()
  if (parent.kind !== 'object') return fail()
  const places = parent.members.flatMap((member, index) => member.name === name ? [index] : [])
  return places.length === 1 ? places[0] as number : fail()
}

const arrayIndex = (name: string): number => /^(0|[1-9]\d*)$/.test(name) ? Number(name) : NaN

/** RFC 7396, 2. */
export function mergeReference (target: JsonTree | undefined, patch: JsonTree): JsonTree {
  if (patch.kind !== 'object') return patch
  const names = patch.members.map(({ name }) => name)
  if (new Set(names).size < names.length) fail()
  const members = target?.kind === 'object' ? [...target.members] : []
  for (const { name, value, start } of patch.members) {
    const places = members.flatMap((member, index) => member.name === name ? [index] : [])
    if (places.length > 1) fail()
    const [index = -1] = places
    if (value.kind === 'scalar' && value.json === 'null') {
      if (index >= 0) members.splice(index, 1)
    } else {
      const merged = { name, value: mergeReference(members[index]?.value, value), start }
      if (index >= 0) members[index] = merged
      else members.push(merged)
    }
  }
  return { kind: 'object', members, start: 0, end: 0 }
}
