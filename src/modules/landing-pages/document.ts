import type { FastifyRequest, RequestPayload } from 'fastify'
import type { JsonReader, TokenType } from '#json-text'
import { readJsonBytes, scanJson } from '../../http/json-body.ts'

// Finds the text of a document in a request body (docs/adr/0003-documents-as-text.md).

declare module 'fastify' {
  interface FastifyRequest {
    /** The document of the body; undefined if there is none. Set by `parseDocumentBody`. */
    document: FoundDocument | undefined
  }
}

/** A document in a request. */
export interface FoundDocument {
  /** What error messages call it. */
  readonly label: 'Current data' | 'Document'
  /** The document exactly as it was sent. */
  readonly text: string
  readonly byteSize: number
  /** The nesting depth of objects and arrays. Up to MAX_DEPTH it may be that of the whole body. */
  readonly depth: number
}

/** Levels of objects and arrays in a document. */
export const MAX_DEPTH = 100

/** Members beside the document whose values the routes read. */
const FIELDS: ReadonlySet<string> = new Set(['published', 'key'])

/**
 * The body parser of routes that take documents. It sets `request.document`. `request.body` becomes an
 * outline for the schemas: the members that they check, with empty values of the types that were sent.
 */
export async function parseDocumentBody (request: FastifyRequest, payload: RequestPayload): Promise<unknown> {
  const bytes = await readJsonBytes(request, payload)
  if (bytes === undefined) return undefined
  const { outline, document } = await findDocument(bytes.toString('utf8'))
  request.document = document
  return outline
}

/**
 * The body parser of routes whose body is the document itself. It sets `request.document`. `request.body`
 * becomes an empty value of the type that was sent.
 */
export async function parseBareDocument (request: FastifyRequest, payload: RequestPayload): Promise<unknown> {
  const bytes = await readJsonBytes(request, payload)
  if (bytes === undefined) return undefined
  const text = bytes.toString('utf8')
  const depth = await scanJson(text)
  request.document = { label: 'Document', text, byteSize: bytes.length, depth }
  return emptyLike(text)
}

/**
 * Finds `current_data` at the top level of a request body, or else inside `landing_page`. If a name is
 * repeated, the last one counts, as with JSON.parse.
 *
 * @throws {MalformedJsonError} 400
 */
export async function findDocument (
  body: string
): Promise<{ outline: unknown, document: FoundDocument | undefined }> {
  const { members, wrapped, visit } = collectMembers(body)
  const depth = await scanJson(body, visit)
  const outline = outlineOf(body, members, wrapped)
  const text = members.get('current_data') ?? wrapped.get('current_data')
  return { outline, document: text === undefined ? undefined : await describe(text, depth) }
}

const describe = async (text: string, depth: number): Promise<FoundDocument> => ({
  label: 'Current data',
  text,
  byteSize: Buffer.byteLength(text),
  depth: depth > MAX_DEPTH ? await scanJson(text) : depth
})

/** The values of an object's members by name, as they are written. */
type Members = ReadonlyMap<string, string>

/** Collects the members of a body and of its `landing_page`. `visit` has to be called for each token. */
function collectMembers (body: string) {
  const members = new Map<string, string>()
  const wrapped = new Map<string, string>()
  /** The open member of the body, and the one in it. */
  const open: ({ readonly name: string, start: number } | undefined)[] = []
  const visit = (type: TokenType, reader: JsonReader): void => {
    const depth = type === 'open' ? reader.depth - 1 : reader.depth
    if (depth === 0 || depth > 2 || (depth === 2 && open[1]?.name !== 'landing_page')) return
    if (type === 'name') {
      open.length = depth
      open[depth] = { name: reader.decode(), start: 0 }
      if (depth === 1 && open[1]?.name === 'landing_page') wrapped.clear()
      return
    }
    const member = open[depth]
    if (member === undefined) return // an element of an array
    if (type !== 'close') member.start = reader.start
    if (type !== 'open') {
      ;(depth === 1 ? members : wrapped).set(member.name, body.slice(member.start, reader.end))
    }
  }
  return { members, wrapped, visit }
}

/**
 * A body, or its `landing_page`, as an object of the members that the schemas know. Documents are empty
 * values of the types that were sent. A member `other` stands for all unknown ones.
 */
function outlineOf (json: string, members: Members, wrapped?: Members): unknown {
  const outline = emptyLike(json)
  for (const [name, value] of members) {
    const known = name === 'current_data' ? { current_data: emptyLike(value) }
      : name === 'landing_page' && wrapped !== undefined ? { landing_page: outlineOf(value, wrapped) }
      : FIELDS.has(name) ? { [name]: /^[{[]/.test(value) ? emptyLike(value) : JSON.parse(value) }
      : { other: null }
    Object.assign(outline as object, known)
  }
  return outline
}

const firstCharacterOf = (json: string): string | undefined => /[^ \t\n\r]/.exec(json)?.[0]

/** A small value of the same JSON type, with which schemas check the type without parsing the document. */
function emptyLike (json: string): unknown {
  switch (firstCharacterOf(json)) {
    case '{':
      return {}
    case '[':
      return []
    case '"':
      return ''
    case 't':
    case 'f':
      return true
    case 'n':
      return null
    default:
      return 0
  }
}
