export { formatJson } from './format.ts'
export { formatPointer, parsePointer } from './pointer.ts'
export { decodeString, JsonReader, JsonSyntaxError, placeOf, type Expected,
  type TokenType } from './reader.ts'
export { readJson, type JsonArray, type JsonMember, type JsonNode, type JsonObject,
  type JsonScalar } from './tree.ts'
