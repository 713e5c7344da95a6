import { JsonSlice, type JsonNode } from './json-node.ts'
import { JsonText } from './json-text.ts'
import { createInvalidPatchError, PatchError } from './patch-error.ts'

/** What a document may be after a patch. */
export interface DocumentLimits {
  /** In UTF-8. */
  readonly maxBytes: number
  readonly maxLevels: number
}

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b

export const isObject = ({ firstByte }: JsonNode): boolean => firstByte === OPEN_BRACE
export const isArray = ({ firstByte }: JsonNode): boolean => firstByte === OPEN_BRACKET
export const isContainer = (node: JsonNode): boolean => isObject(node) || isArray(node)

export const NOT_A_DOCUMENT = 'the document must be a JSON object or array'
export const tooDeep = ({ maxLevels }: DocumentLimits): string =>
  `the document would be nested too deeply (maximum is ${maxLevels} levels)`

/** The root of a JSON text. */
export const rootOf = (text: JsonText): JsonSlice => new JsonSlice(text, 0)

/**
 * Applies a change to the root of a document.
 *
 * @param json the document, valid JSON
 * @param change returns the new root, which is an object or array of at most `maxLevels` levels
 * @returns the text of the changed document; the same text if no byte changes
 * @throws {PatchError} 413 if the result is too large, 422 if the document is nested too deeply already
 */
export function patchText (
  json: string,
  limits: DocumentLimits,
  change: (root: JsonNode) => JsonNode
): string {
  const text = new JsonText(json)
  const root = rootOf(text)
  // The depth of the recursion is the number of levels.
  if (root.levels > limits.maxLevels) {
    throw createInvalidPatchError(`The document is nested too deeply (maximum is ${limits.maxLevels} levels)`)
  }
  const changed = change(root)
  if (changed === root) return json
  const { bytes } = text
  const end = text.end(0)
  const size = bytes.length - root.size + changed.size
  if (size > limits.maxBytes) throw new PatchError(413, [])
  const result = Buffer.allocUnsafeSlow(size)
  bytes.copy(result, 0, 0, text.start(0))
  const at = changed.write(result, text.start(0))
  bytes.copy(result, at, end)
  return result.toString()
}
