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
  /** The nesting depth of objects and arrays, at least 1. */
  readonly depth: number
}

/** Longer than the names that are looked for, even if all their characters are escaped. */
const MAX_NAME_LENGTH = 100

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
  return emptyLike(text, 0)
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
  const finder = new DocumentFinder(body)
  await scanJson(body, (type, reader) => finder.visit(type, reader))
  const found = finder.own ?? finder.wrapped
  if (found === undefined) return { outline: finder.outline(), document: undefined }
  const text = body.slice(found.start, found.end)
  const document: FoundDocument = {
    label: 'Current data',
    text,
    byteSize: Buffer.byteLength(text),
    depth: found.levels
  }
  return { outline: finder.outline(), document }
}

interface FoundValue {
  readonly start: number
  readonly end: number
  readonly levels: number
}

class DocumentFinder {
  readonly #text: string
  /** The name of the open member at depth 1, and of the one in it at depth 2. */
  readonly #names: (string | undefined)[] = []
  readonly #starts: number[] = []
  own: FoundValue | undefined
  wrapped: FoundValue | undefined
  #wrapper: FoundValue | undefined
  #hasOthers = false
  #hasOthersWrapped = false

  constructor (text: string) {
    this.#text = text
  }

  visit (type: TokenType, reader: JsonReader): void {
    const { depth } = reader
    const outer = type === 'open' ? depth - 1 : depth
    if (outer > 2 || (outer === 2 && this.#names[1] !== 'landing_page')) return
    if (type === 'name') return this.#name(depth, reader)
    if (type !== 'close') {
      this.#starts[outer] = reader.start
      reader.deepest = depth
    }
    if (type === 'open') this.#names[depth] = undefined
    else {
      const levels = reader.deepest - outer
      this.#value(outer, { start: this.#starts[outer] as number, end: reader.end, levels })
    }
  }

  #name (depth: number, reader: JsonReader): void {
    // Escapes are decoded: "current\u005fdata" is the same name.
    const name = reader.end - reader.start > MAX_NAME_LENGTH ? undefined : reader.decode()
    this.#names[depth] = name
    if (depth === 1 && name === 'landing_page') {
      this.wrapped = undefined
      this.#hasOthersWrapped = false
    } else if (name !== 'current_data') {
      if (depth === 1) this.#hasOthers = true
      else this.#hasOthersWrapped = true
    }
  }

  #value (depth: number, value: FoundValue): void {
    const [, outer, inner] = this.#names
    if (depth === 1 && outer === 'current_data') this.own = value
    if (depth === 1 && outer === 'landing_page') this.#wrapper = value
    if (depth === 2 && inner === 'current_data') this.wrapped = value
  }

  /**
   * The body as an object of its two known members, with empty values of the types that were sent. A member
   * `other` stands for all others.
   */
  outline (): unknown {
    const root = emptyLike(this.#text, 0)
    if (!isObject(root)) return root
    if (this.#hasOthers) root.other = null
    if (this.own !== undefined) root.current_data = emptyLike(this.#text, this.own.start)
    if (this.#wrapper !== undefined) {
      const wrapper = root.landing_page = emptyLike(this.#text, this.#wrapper.start)
      if (isObject(wrapper) && this.wrapped !== undefined) {
        wrapper.current_data = emptyLike(this.#text, this.wrapped.start)
      }
      if (isObject(wrapper) && this.#hasOthersWrapped) wrapper.other = null
    }
    return root
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const FIRST_CHARACTER = /[^ \t\n\r]/g

/** An empty value of the type of the value that begins at or after an offset. */
function emptyLike (json: string, offset: number): unknown {
  FIRST_CHARACTER.lastIndex = offset
  switch (FIRST_CHARACTER.exec(json)?.[0]) {
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
