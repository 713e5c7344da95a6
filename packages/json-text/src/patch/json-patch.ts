import { DuplicateNameError, isEqual } from './json-equality.ts'
import type { JsonNode, Key } from './json-node.ts'
import { describeOperation, parseOperations, type Operation, type Pointer } from './operations.ts'
import { PatchError, quote } from './patch-error.ts'
import { NOT_A_DOCUMENT, patchText, tooDeep, type DocumentLimits } from './patched-document.ts'

/**
 * Applies a JSON Patch (RFC 6902) to the text of a document. Bytes that the patch doesn't name stay as they
 * are, and its values are inserted as they are written in it.
 *
 * @param document valid JSON
 * @param patch valid JSON
 * @throws {PatchError} 409 if a `test` fails; 413 if the result is too large; 422 if the patch is malformed,
 *   names what is missing or ambiguous, or its result is no document
 */
export function applyJsonPatch (document: string, patch: string, limits: DocumentLimits): string {
  const operations = parseOperations(patch)
  return patchText(document, limits, (original) => {
    let root = original
    let rootChange: Operation | undefined
    for (const operation of operations) {
      const before = root.own()
      root = inOperation(operation, () => apply(before, operation, limits))
      if (root !== before && operation.path.length === 0) rootChange = operation
    }
    if (rootChange !== undefined && !root.isContainer) {
      inOperation(rootChange, () => refuse(NOT_A_DOCUMENT))
    }
    return root
  })
}

/** Why one operation can't be applied. */
class Refusal extends Error {}

/** A `test` failed. */
class Difference extends Refusal {}

function refuse (message: string): never {
  throw new Refusal(message)
}

/** Names the operation in its errors. */
function inOperation<T> (operation: Operation, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const status = error instanceof Difference ? 409 : 422
    throw new PatchError(status, [`${describeOperation(operation)}: ${error.message}`])
  }
}

const NOTHING_HERE = 'there is nothing at this path'
const NO_PARENT = 'there is no object or array to add it to'

function apply (root: JsonNode, operation: Operation, limits: DocumentLimits): JsonNode {
  const { path } = operation
  switch (operation.op) {
    case 'add':
      return add(root, path, operation.value, limits)
    case 'remove':
      return remove(root, path)
    case 'replace':
      return replace(root, path, operation.value, limits)
    case 'copy': {
      const value = findSource(root, operation).share()
      return add(root.own(), path, value, limits) // the value may be the root
    }
    case 'move':
      return move(root, operation, limits)
    case 'test':
      test(find(root, path, NOTHING_HERE), operation.value)
      return root
  }
}

type CopyOrMove = Extract<Operation, { op: 'move' | 'copy' }>

const findSource = (root: JsonNode, { from, fromText }: CopyOrMove): JsonNode =>
  find(root, from, `there is nothing at ${quote(fromText)}`)

function move (root: JsonNode, operation: CopyOrMove, limits: DocumentLimits): JsonNode {
  const { from, path } = operation
  const value = findSource(root, operation)
  if (from.every((name, depth) => name === path[depth])) {
    return from.length === path.length ? root : refuse('a value can not be moved into itself')
  }
  return add(remove(root, from), path, value, limits)
}

function test (actual: JsonNode, expected: JsonNode): void {
  try {
    if (!isEqual(actual, expected)) throw new Difference('the value is different')
  } catch (error) {
    throw error instanceof DuplicateNameError ? new Refusal(severalTimes(error.duplicate)) : error
  }
}

function remove (root: JsonNode, path: Pointer): JsonNode {
  if (path.length === 0) refuse('the whole document can not be removed')
  const parent = findParent(root, path, NOTHING_HERE)
  parent.delete(keyIn(parent, lastOf(path), NOTHING_HERE))
  return root
}

function replace (root: JsonNode, path: Pointer, value: JsonNode, limits: DocumentLimits): JsonNode {
  checkLevels(path, value, limits)
  if (path.length === 0) return value
  const parent = findParent(root, path, NOTHING_HERE)
  parent.set(keyIn(parent, lastOf(path), NOTHING_HERE), value)
  return root
}

function add (root: JsonNode, path: Pointer, value: JsonNode, limits: DocumentLimits): JsonNode {
  checkLevels(path, value, limits)
  if (path.length === 0) return value
  const parent = findParent(root, path, NO_PARENT)
  const name = lastOf(path)
  if (parent.type === 'array') parent.insert(indexForNew(parent, name), value)
  else if (parent.type !== 'object') refuse(NO_PARENT)
  else if (parent.has(name)) parent.set(keyIn(parent, name, NO_PARENT), value)
  else parent.add({ name, json: JSON.stringify(name) }, value)
  return root
}

function checkLevels (path: Pointer, value: JsonNode, limits: DocumentLimits): void {
  if (path.length + value.levels > limits.maxLevels) refuse(tooDeep(limits))
}

const INDEX = /^(?:0|[1-9]\d*)$/

/** The index of an array that a name stands for; NaN if it stands for none. */
const indexOf = (name: string): number => INDEX.test(name) ? Number(name) : NaN

/** Where an element may be inserted into an array. */
function indexForNew ({ count }: JsonNode, name: string): number {
  if (name === '-') return count
  const index = indexOf(name)
  if (Number.isNaN(index)) refuse(`${quote(name)} is no index of an array`)
  if (index > count) refuse(`the array has only ${count} element${count === 1 ? '' : 's'}`)
  return index
}

const lastOf = (path: Pointer): string => path.at(-1) as string

/** The innermost object or array of a path, to be changed. */
function findParent (root: JsonNode, path: Pointer, missing: string): JsonNode {
  let node = root
  for (const name of path.slice(0, -1)) node = node.getOwn(keyIn(node, name, missing))
  return node
}

function find (root: JsonNode, path: Pointer, missing: string): JsonNode {
  let node = root
  for (const name of path) node = node.get(keyIn(node, name, missing))
  return node
}

/** The key of an existing member or element. */
function keyIn (container: JsonNode, name: string, missing: string): Key {
  if (container.type === 'object' && container.isDuplicate(name)) refuse(severalTimes(name))
  const key = container.type === 'array' ? indexOf(name) : name
  return container.has(key) ? key : refuse(missing)
}

const severalTimes = (name: string): string => `the name ${quote(name)} occurs more than once in its object`
