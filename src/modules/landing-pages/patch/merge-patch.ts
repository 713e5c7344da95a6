import { childAt, countOf, edit, JsonSlice, positionOf, type Change, type JsonNode } from './json-node.ts'
import { formatPointer } from './json-pointer.ts'
import { JsonText } from './json-text.ts'
import { DUPLICATE, MISSING } from './name-index.ts'
import { createInvalidPatchError, quote } from './patch-error.ts'
import { isContainer, isObject, NOT_A_DOCUMENT, patchText, rootOf, tooDeep,
  type DocumentLimits } from './patched-document.ts'

const LETTER_N = 0x6e

/**
 * Applies a JSON Merge Patch (RFC 7396) to the text of a document. Bytes that the patch doesn't name stay as
 * they are, and its values are inserted as they are written in it.
 *
 * @param document valid JSON
 * @param patch valid JSON
 * @throws {PatchError} 413 for a large result; 422 if a name is ambiguous or the result is no document
 */
export function applyMergePatch (document: string, patch: string, limits: DocumentLimits): string {
  const change = rootOf(new JsonText(patch))
  return patchText(document, limits, (root) => {
    const merged = new Merge(limits).merge(root, change)
    if (!isContainer(merged)) refuse([], NOT_A_DOCUMENT)
    return merged
  })
}

function refuse (path: readonly string[], message: string): never {
  const member = path.length === 0 ? 'Merge patch' : `Merge patch, member ${quote(formatPointer(path))}`
  throw createInvalidPatchError(`${member}: ${message}`)
}

class Merge {
  readonly #limits: DocumentLimits
  /** The names that lead to the value that is merged. */
  readonly #path: string[] = []

  constructor (limits: DocumentLimits) {
    this.#limits = limits
  }

  /** The algorithm of RFC 7396, 2. A target that is missing is undefined. */
  merge (target: JsonNode | undefined, patch: JsonSlice): JsonNode {
    if (!isObject(patch)) {
      this.#checkLevels(patch.levels)
      return patch
    }
    this.#checkLevels(1)
    const duplicate = patch.members.index.firstDuplicate
    if (duplicate !== undefined) refuse([...this.#path, duplicate], 'the patch has this name more than once')
    const isMerged = target !== undefined && isObject(target)
    const changes = isMerged ? this.#changesOf(target, patch) : this.#changesOfNew(patch)
    const container = isMerged ? target : patch
    return changes.length === 0 ? container : edit(container, changes)
  }

  /** What a patch changes in an existing object. */
  #changesOf (target: JsonNode, patch: JsonSlice): Change[] {
    const changes: Change[] = []
    const { members } = patch
    const count = countOf(target)
    this.#eachMember(patch, (name, value, place) => {
      const position = positionOf(target, name)
      if (position === DUPLICATE) refuse(this.#path, 'the document has this name more than once')
      const existing = position === MISSING ? undefined : childAt(target, position)
      if (isNull(value)) {
        if (existing !== undefined) changes.push({ kind: 'remove', position })
        return
      }
      const merged = this.merge(existing, value)
      if (existing === undefined) {
        const newName = { name, json: members.nameText(place) }
        changes.push({ kind: 'insert', position: count, value: merged, name: newName })
      } else if (merged !== existing) changes.push({ kind: 'replace', position, value: merged })
    })
    return changes.sort((a, b) => a.position - b.position)
  }

  /** What has to be removed from an object of the patch that becomes part of the document: its nulls. */
  #changesOfNew (patch: JsonSlice): Change[] {
    const changes: Change[] = []
    this.#eachMember(patch, (_name, value, position) => {
      if (isNull(value)) return changes.push({ kind: 'remove', position })
      const merged = this.merge(undefined, value)
      if (merged !== value) changes.push({ kind: 'replace', position, value: merged })
    })
    return changes
  }

  #eachMember (
    { text, members }: JsonSlice,
    visit: (name: string, value: JsonSlice, at: number) => void
  ): void {
    for (let position = 0; position < members.count; position++) {
      const name = members.name(position)
      this.#path.push(name)
      visit(name, new JsonSlice(text, members.valueId(position)), position)
      this.#path.pop()
    }
  }

  /** @param levels of the value that the path leads to */
  #checkLevels (levels: number): void {
    if (this.#path.length + levels > this.#limits.maxLevels) refuse(this.#path, tooDeep(this.#limits))
  }
}

const isNull = ({ firstByte }: JsonNode): boolean => firstByte === LETTER_N
