export { applyJsonPatch } from './patch/json-patch.ts'
export { applyMergePatch } from './patch/merge-patch.ts'
export { PatchError, type PatchProblem } from './patch/patch-error.ts'
export type { DocumentLimits } from './patch/patched-document.ts'
export { byteLength } from './text/byte-length.ts'
export { formatJson } from './text/format.ts'
export { formatPointer, parsePointer } from './text/pointer.ts'
export { decodeString, JsonReader, JsonSyntaxError, placeOf, type Expected,
  type TokenType } from './text/reader.ts'
export { readJson, type JsonArray, type JsonMember, type JsonNode, type JsonObject,
  type JsonScalar } from './text/tree.ts'
