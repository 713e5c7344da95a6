import { JsonSlice, positionOf } from './json-node.ts'
import { parsePointer, type Pointer } from './json-pointer.ts'
import { JsonText } from './json-text.ts'
import { MISSING } from './name-index.ts'
import { createInvalidPatchError, PatchError, quote } from './patch-error.ts'
import { isArray, isObject, rootOf } from './patched-document.ts'

// The operations of a JSON Patch (RFC 6902, 4).

const OPS = ['add', 'remove', 'replace', 'move', 'copy', 'test'] as const
const MAX_OPERATIONS = 1_000
const QUOTE = 0x22

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
    | { readonly op: 'add' | 'replace' | 'test', readonly value: JsonSlice }
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
  const root = rootOf(new JsonText(patch))
  if (!isArray(root)) throw createInvalidPatchError('A JSON Patch must be an array of operations')
  const { text, members } = root
  if (members.count > MAX_OPERATIONS) {
    throw createInvalidPatchError(`A JSON Patch can have at most ${MAX_OPERATIONS} operations`)
  }
  const operations: Operation[] = []
  const problems: string[] = []
  for (let position = 0; position < members.count; position++) {
    const node = new JsonSlice(text, members.valueId(position))
    const operation = new OperationParser(node, position + 1, problems).parse()
    if (operation !== undefined) operations.push(operation)
  }
  if (problems.length > 0) throw new PatchError(422, problems)
  return operations
}

/** Reads one operation, and adds a sentence to the problems for each rule that it breaks. */
class OperationParser {
  readonly #node: JsonSlice
  readonly #number: number
  readonly #problems: string[]

  constructor (node: JsonSlice, number: number, problems: string[]) {
    this.#node = node
    this.#number = number
    this.#problems = problems
  }

  parse (): Operation | undefined {
    if (!isObject(this.#node)) return this.#refuse('it must be an object with "op" and "path"')
    const duplicate = this.#node.members.index.firstDuplicate
    if (duplicate !== undefined) return this.#refuse(`it has the name ${quote(duplicate)} more than once`)
    const op = OPS.find((known) => known === this.#string('op'))
    if (op === undefined) this.#refuse('"op" must be "add", "remove", "replace", "move", "copy" or "test"')
    const path = this.#pointer('path')
    const target = { number: this.#number, path: path ?? [], pathText: this.#string('path') ?? '' }
    switch (op) {
      case 'add':
      case 'replace':
      case 'test': {
        const value = this.#member('value') ?? this.#refuse(`"value" is missing`)
        return path && value && { ...target, op, value }
      }
      case 'move':
      case 'copy': {
        const from = this.#pointer('from')
        return path && from && { ...target, op, from, fromText: this.#string('from') as string }
      }
      default:
        return path && op && { ...target, op }
    }
  }

  #pointer (name: string): Pointer | undefined {
    const member = this.#member(name)
    if (member === undefined) return this.#refuse(`"${name}" is missing`)
    const { text, id } = member
    const pointer = member.firstByte === QUOTE
      ? parsePointer(text.bytes.toString('utf8', text.start(id) + 1, text.end(id) - 1)) : undefined
    return pointer ?? this.#refuse(`"${name}" must be a JSON Pointer, such as "/title" or "/prices/0"`)
  }

  #string (name: string): string | undefined {
    const member = this.#member(name)
    return member?.firstByte === QUOTE ? member.text.string(member.id) : undefined
  }

  #member (name: string): JsonSlice | undefined {
    const position = positionOf(this.#node, name)
    return position === MISSING ? undefined
      : new JsonSlice(this.#node.text, this.#node.members.valueId(position))
  }

  #refuse (message: string): undefined {
    this.#problems.push(`Operation ${this.#number}: ${message}`)
  }
}
