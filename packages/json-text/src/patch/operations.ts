import { parsePointer } from '../text/pointer.ts'
import { decodeString } from '../text/reader.ts'
import { JsonNode } from './json-node.ts'
import { createInvalidPatchError, PatchError, quote } from './patch-error.ts'

// The operations of a JSON Patch (RFC 6902, 4).

const OPS = ['add', 'remove', 'replace', 'move', 'copy', 'test'] as const
const MAX_OPERATIONS = 1_000

/** A JSON Pointer as names from the outermost to the innermost. */
export type Pointer = readonly string[]

interface Target {
  /** From 1. */
  readonly number: number
  readonly path: Pointer
  /** As it is written in the patch, decoded. */
  readonly pathText: string
}

export type Operation =
  & Target
  & (
    | { readonly op: 'add' | 'replace' | 'test', readonly value: JsonNode }
    | { readonly op: 'remove' }
    | { readonly op: 'move' | 'copy', readonly from: Pointer, readonly fromText: string }
  )

/** Formats an operation for a sentence: `Operation 3 (replace "/price/0")`. */
export function describeOperation (operation: Operation): string {
  const { number, op, pathText } = operation
  const from = 'from' in operation ? `${quote(operation.fromText)} to ` : ''
  return `Operation ${number} (${op} ${from}${quote(pathText)})`
}

/**
 * Reads the operations of a JSON Patch. Members that RFC 6902 doesn't define are ignored.
 *
 * @param patch valid JSON
 * @throws {PatchError} 422 with a sentence for each problem
 */
export function parseOperations (patch: string): Operation[] {
  const root = JsonNode.parse(patch)
  if (root.type !== 'array') throw createInvalidPatchError('A JSON Patch must be an array of operations')
  if (root.count > MAX_OPERATIONS) {
    throw createInvalidPatchError(`A JSON Patch can have at most ${MAX_OPERATIONS} operations`)
  }
  const operations: Operation[] = []
  const problems: string[] = []
  for (let position = 0; position < root.count; position++) {
    const operation = parseOperation(root.get(position), position + 1, problems)
    if (operation !== undefined) operations.push(operation)
  }
  if (problems.length > 0) throw new PatchError(422, problems)
  return operations
}

/** Reads one operation, and adds a sentence to the problems for each rule that it breaks. */
function parseOperation (node: JsonNode, number: number, problems: string[]): Operation | undefined {
  const refuse = (message: string): undefined => {
    problems.push(`Operation ${number}: ${message}`)
  }
  const member = (name: string) => node.has(name) ? node.get(name) : undefined
  const string = (name: string) => {
    const value = member(name)
    return value?.type === 'string' ? decodeString(value.text) : undefined
  }
  const pointer = (name: string) => {
    if (member(name) === undefined) return refuse(`"${name}" is missing`)
    const text = string(name)
    const names = text === undefined ? undefined : parsePointer(text)
    return names ?? refuse(`"${name}" must be a JSON Pointer, such as "/title" or "/prices/0"`)
  }

  if (node.type !== 'object') return refuse('it must be an object with "op" and "path"')
  const { duplicate } = node
  if (duplicate !== undefined) return refuse(`it has the name ${quote(duplicate)} more than once`)
  const op = OPS.find((known) => known === string('op'))
  if (op === undefined) refuse('"op" must be "add", "remove", "replace", "move", "copy" or "test"')
  const path = pointer('path')
  const target = { number, path: path ?? [], pathText: string('path') ?? '' }
  switch (op) {
    case 'add':
    case 'replace':
    case 'test': {
      const value = member('value') ?? refuse('"value" is missing')
      return path && value && { ...target, op, value }
    }
    case 'move':
    case 'copy': {
      const from = pointer('from')
      return path && from && { ...target, op, from, fromText: string('from') as string }
    }
    default:
      return path && op && { ...target, op }
  }
}
