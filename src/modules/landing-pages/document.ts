import type { FastifyRequest, RequestPayload } from 'fastify'
import { JsonReader } from '#json-text'
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
  const depth = await scanJson(body)
  const members = membersOf(body)
  const wrapped = membersOf(members.get('landing_page'))
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

/** Returns the members of an object, and none of another value. @param json valid JSON */
function membersOf (json = ''): Members {
  const members = new Map<string, string>()
  const reader = new JsonReader(json)
  let name: string | undefined
  if (firstCharacterOf(json) !== '{') return members
  for (let type = reader.next(); type !== 'end'; type = reader.next()) {
    if (type === 'name') name = reader.decode()
    else if (name !== undefined) {
      const { start } = reader
      if (type === 'open') reader.skipValid()
      members.set(name, json.slice(start, reader.end))
      name = undefined
    }
  }
  return members
}

/**
 * A body, or its `landing_page`, as an object of the members that the schemas know, with empty values of the
 * types that were sent. A member `other` stands for all others.
 */
function outlineOf (json: string, members: Members, wrapped?: Members): unknown {
  const outline = emptyLike(json)
  for (const [name, value] of members) {
    const known = name === 'current_data' ? { current_data: emptyLike(value) }
      : name === 'landing_page' && wrapped !== undefined ? { landing_page: outlineOf(value, wrapped) }
      : { other: null }
    Object.assign(outline as object, known)
  }
  return outline
}

const firstCharacterOf = (json: string): string | undefined => /[^ \t\n\r]/.exec(json)?.[0]

/** An empty value of the type of a value. */
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
