import { DuplicateNameError, isEqual } from './json-equality.ts'
import { childAt, countOf, edit, positionOf, type JsonNode, type JsonSlice,
  type NewName } from './json-node.ts'
import { indexOf, type Pointer } from './json-pointer.ts'
import { DUPLICATE, MISSING } from './name-index.ts'
import { describeOperation, parseOperations, type Operation } from './operations.ts'
import { PatchError, quote } from './patch-error.ts'
import { isArray, isContainer, isObject, NOT_A_DOCUMENT, patchText, tooDeep,
  type DocumentLimits } from './patched-document.ts'

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
      const before = root
      root = inOperation(operation, () => apply(root, operation, limits))
      if (root !== before && operation.path.length === 0) rootChange = operation
    }
    if (rootChange !== undefined && !isContainer(root)) {
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
    case 'copy':
      return add(root, path, findSource(root, operation), limits)
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
  if (from.every(({ name }, depth) => name === path[depth]?.name)) {
    return from.length === path.length ? root : refuse('a value can not be moved into itself')
  }
  return add(remove(root, from), path, value, limits)
}

function test (actual: JsonNode, expected: JsonSlice): void {
  try {
    if (!isEqual(actual, expected)) throw new Difference('the value is different')
  } catch (error) {
    throw error instanceof DuplicateNameError ? new Refusal(severalTimes(error.duplicate)) : error
  }
}

function remove (root: JsonNode, path: Pointer): JsonNode {
  if (path.length === 0) refuse('the whole document can not be removed')
  return changeParent(root, path, NOTHING_HERE, (parent, { name }) => {
    const position = positionIn(parent, name, NOTHING_HERE)
    return edit(parent, [{ kind: 'remove', position }])
  })
}

function replace (root: JsonNode, path: Pointer, value: JsonNode, limits: DocumentLimits): JsonNode {
  checkLevels(path, value, limits)
  if (path.length === 0) return value
  return changeParent(root, path, NOTHING_HERE, (parent, { name }) => {
    const position = positionIn(parent, name, NOTHING_HERE)
    return edit(parent, [{ kind: 'replace', position, value }])
  })
}

function add (root: JsonNode, path: Pointer, value: JsonNode, limits: DocumentLimits): JsonNode {
  checkLevels(path, value, limits)
  if (path.length === 0) return value
  return changeParent(root, path, NO_PARENT, (parent, name) => {
    if (isArray(parent)) {
      return edit(parent, [{ kind: 'insert', position: indexForNew(parent, name.name), value }])
    }
    if (!isObject(parent)) refuse(NO_PARENT)
    const position = uniquePositionOf(parent, name.name)
    return edit(parent, [
      position === MISSING ? { kind: 'insert', position: countOf(parent), value, name }
        : { kind: 'replace', position, value }
    ])
  })
}

function checkLevels (path: Pointer, value: JsonNode, limits: DocumentLimits): void {
  if (path.length + value.levels > limits.maxLevels) refuse(tooDeep(limits))
}

/** Where an element may be inserted into an array. */
function indexForNew (array: JsonNode, name: string): number {
  const count = countOf(array)
  if (name === '-') return count
  const index = indexOf(name)
  if (Number.isNaN(index)) refuse(`${quote(name)} is no index of an array`)
  if (index > count) refuse(`the array has only ${count} element${count === 1 ? '' : 's'}`)
  return index
}

/** Changes the innermost container of a path, and with it all containers around it. */
function changeParent (
  container: JsonNode,
  path: Pointer,
  missing: string,
  change: (parent: JsonNode, name: NewName) => JsonNode
): JsonNode {
  const [name, ...inner] = path as [NewName, ...NewName[]]
  if (inner.length === 0) return change(container, name)
  const position = positionIn(container, name.name, missing)
  const value = changeParent(childAt(container, position), inner, missing, change)
  return edit(container, [{ kind: 'replace', position, value }])
}

function find (root: JsonNode, path: Pointer, missing: string): JsonNode {
  let node = root
  for (const { name } of path) node = childAt(node, positionIn(node, name, missing))
  return node
}

/** The position of an existing member or element. */
function positionIn (container: JsonNode, name: string, missing: string): number {
  let position: number = MISSING
  if (isObject(container)) position = uniquePositionOf(container, name)
  else if (isArray(container)) position = indexOf(name)
  return position >= 0 && (isObject(container) || position < countOf(container)) ? position : refuse(missing)
}

function uniquePositionOf (object: JsonNode, name: string): number {
  const position = positionOf(object, name)
  return position === DUPLICATE ? refuse(severalTimes(name)) : position
}

const severalTimes = (name: string): string => `the name ${quote(name)} occurs more than once in its object`
