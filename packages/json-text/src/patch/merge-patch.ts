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
    const merged = merge(root, change, [], limits)
    if (!merged.isContainer) refuse([], NOT_A_DOCUMENT)
    return merged
  })
}

function refuse (path: readonly string[], message: string): never {
  const member = path.length === 0 ? 'Merge patch' : `Merge patch, member ${quote(formatPointer(path))}`
  throw createInvalidPatchError(`${member}: ${message}`)
}

/**
 * The algorithm of RFC 7396, section 2.
 *
 * @param target undefined if it is missing
 * @param path the names that lead to the target
 * @returns the target, changed
 */
function merge (
  target: JsonNode | undefined,
  patch: JsonNode,
  path: readonly string[],
  limits: DocumentLimits
): JsonNode {
  const levels = patch.type === 'object' ? 1 : patch.levels
  if (path.length + levels > limits.maxLevels) refuse(path, tooDeep(limits))
  if (patch.type !== 'object') return patch
  const { duplicate } = patch
  if (duplicate !== undefined) refuse([...path, duplicate], 'the patch has this name more than once')
  // Without a target, the object of the patch becomes part of the document, without its nulls.
  const result = target?.type === 'object' ? target : patch
  for (const name of patch.names) {
    const inner = [...path, name]
    if (result.isDuplicate(name)) refuse(inner, 'the document has this name more than once')
    const value = patch.get(name)
    if (value.type === 'null') {
      result.delete(name)
      continue
    }
    const isNew = result === patch || !result.has(name)
    const merged = merge(isNew ? undefined : result.get(name), value, inner, limits)
    if (result.has(name)) result.set(name, merged)
    else result.add(patch.nameOf(name), merged)
  }
  return result
}
