import { formatPointer } from '../text/pointer.ts'
import { JsonNode } from './json-node.ts'
import { createInvalidPatchError, quote } from './patch-error.ts'
import { NOT_A_DOCUMENT, patchText, tooDeep, type DocumentLimits } from './patched-document.ts'

/**
 * Applies a JSON Merge Patch (RFC 7396) to the text of a document. Bytes that the patch doesn't name stay as
 * they are, and its values are inserted as they are written in it.
 *
 * @param document valid JSON
 * @param patch valid JSON
 * @throws {PatchError} 413 for a large result; 422 if a name is ambiguous or the result is no document
 */
export function applyMergePatch (document: string, patch: string, limits: DocumentLimits): string {
  const change = JsonNode.parse(patch)
  return patchText(document, limits, (root) => {
    const merged = new Merge(limits).merge(root, change)
    if (!merged.isContainer) refuse([], NOT_A_DOCUMENT)
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

  /** The algorithm of RFC 7396, 2. A target that is missing is undefined. @returns the target, changed */
  merge (target: JsonNode | undefined, patch: JsonNode): JsonNode {
    if (patch.type !== 'object') {
      this.#checkLevels(patch.levels)
      return patch
    }
    this.#checkLevels(1)
    const { duplicate } = patch
    if (duplicate !== undefined) refuse([...this.#path, duplicate], 'the patch has this name more than once')
    // Without a target, the object of the patch becomes part of the document, without its nulls.
    const result = target?.type === 'object' ? target : patch
    for (const name of patch.names) {
      this.#path.push(name)
      this.#mergeMember(result, patch, name)
      this.#path.pop()
    }
    return result
  }

  #mergeMember (target: JsonNode, patch: JsonNode, name: string): void {
    if (target.isDuplicate(name)) refuse(this.#path, 'the document has this name more than once')
    const value = patch.get(name)
    const isNew = target === patch || !target.has(name)
    if (value.type === 'null') target.delete(name)
    else {
      const merged = this.merge(isNew ? undefined : target.get(name), value)
      if (target.has(name)) target.set(name, merged)
      else target.add(patch.nameOf(name), merged)
    }
  }

  /** @param levels of the value that the path leads to */
  #checkLevels (levels: number): void {
    if (this.#path.length + levels > this.#limits.maxLevels) refuse(this.#path, tooDeep(this.#limits))
  }
}
