import { byteLength } from '../text/byte-length.ts'
import { JsonNode } from './json-node.ts'
import { createInvalidPatchError, PatchError } from './patch-error.ts'

/** What a document may be after a patch. */
export interface DocumentLimits {
  /** In UTF-8. */
  readonly maxBytes: number
  readonly maxLevels: number
}

export const NOT_A_DOCUMENT = 'the document must be a JSON object or array'
export const tooDeep = ({ maxLevels }: DocumentLimits): string =>
  `the document would be nested too deeply (maximum is ${maxLevels} levels)`

/**
 * Applies a change to the root of a document.
 *
 * @param text the document, valid JSON
 * @param change returns the new root, which is an object or array of at most `maxLevels` levels
 * @returns the text of the changed document; the same text if nothing changes
 * @throws {PatchError} 413 if the result is too large, 422 if the document is nested too deeply already
 */
export function patchText (
  text: string,
  { maxBytes, maxLevels }: DocumentLimits,
  change: (root: JsonNode) => JsonNode
): string {
  const root = JsonNode.parse(text)
  // The depth of the recursion is the number of levels.
  if (root.levels > maxLevels) {
    throw createInvalidPatchError(`The document is nested too deeply (maximum is ${maxLevels} levels)`)
  }
  const changed = change(root)
  const [before, after] = root.surroundings
  const pieces: string[] = []
  let length = 0
  const add = (piece: string): void => {
    length += piece.length
    // Copies of copies can be far too large, so this can't wait for the end.
    if (length > Math.max(maxBytes, text.length)) throw new PatchError(413, [])
    pieces.push(piece)
  }
  add(before)
  changed.write(add)
  add(after)
  const result = pieces.join('')
  if (result !== text && byteLength(result) > maxBytes) throw new PatchError(413, [])
  return result
}
