import type { FastifyRequest, RequestPayload } from 'fastify'
import { readJsonBytes, scanJson } from '../../http/json-body.ts'
import type { JsonValue, JsonVisitor } from '../../http/json-scanner.ts'

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
const MAX_NAME_BYTES = 100

/**
 * The body parser of routes that take documents. It sets `request.document`. `request.body` becomes an
 * outline for the schemas: the members that they check, with empty values of the types that were sent.
 */
export async function parseDocumentBody (request: FastifyRequest, payload: RequestPayload): Promise<unknown> {
  const bytes = await readJsonBytes(request, payload)
  if (bytes === undefined) return undefined
  const { outline, document } = await findDocument(bytes)
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
  const { start, levels } = await scanJson(bytes)
  request.document = {
    label: 'Document',
    text: bytes.toString('utf8'),
    byteSize: bytes.length,
    depth: levels
  }
  return emptyLike(bytes[start])
}

/**
 * Finds `current_data` at the top level of a request body, or else inside `landing_page`. If a name is
 * repeated, the last one counts, as with JSON.parse.
 *
 * @throws {MalformedJsonError} 400
 */
export async function findDocument (
  bytes: Buffer
): Promise<{ outline: unknown, document: FoundDocument | undefined }> {
  const finder = new DocumentFinder(bytes)
  const { start } = await scanJson(bytes, finder)
  const found = finder.own ?? finder.wrapped
  const document: FoundDocument | undefined = found && {
    label: 'Current data',
    text: bytes.toString('utf8', found.start, found.end),
    byteSize: found.end - found.start,
    depth: found.levels
  }
  return { outline: finder.outline(start), document }
}

class DocumentFinder implements JsonVisitor {
  readonly #bytes: Buffer
  readonly #names: (string | undefined)[] = []
  own: JsonValue | undefined
  wrapped: JsonValue | undefined
  #wrapper: JsonValue | undefined
  #hasOthers = false
  #hasOthersWrapped = false

  constructor (bytes: Buffer) {
    this.#bytes = bytes
  }

  name (depth: number, start: number, end: number): void {
    // Escapes are decoded: "current\u005fdata" is the same name.
    const name = end - start > MAX_NAME_BYTES ? undefined
      : JSON.parse(this.#bytes.toString('utf8', start, end)) as string
    this.#names[depth] = name
    if (depth === 1 && name === 'landing_page') {
      this.wrapped = undefined
      this.#hasOthersWrapped = false
    } else if (depth === 1 && name !== 'current_data') this.#hasOthers = true
    else if (depth === 2 && this.#names[1] === 'landing_page' && name !== 'current_data') {
      this.#hasOthersWrapped = true
    }
  }

  value (depth: number, value: JsonValue): void {
    const [, outer, inner] = this.#names
    if (depth === 1 && outer === 'current_data') this.own = value
    if (depth === 1 && outer === 'landing_page') this.#wrapper = value
    if (depth === 2 && outer === 'landing_page' && inner === 'current_data') this.wrapped = value
  }

  /**
   * The body as an object of its two known members, with empty values of the types that were sent. A member
   * `other` stands for all others.
   *
   * @param start where the body's value starts
   */
  outline (start: number): unknown {
    const root = emptyLike(this.#bytes[start])
    if (!isObject(root)) return root
    if (this.#hasOthers) root.other = null
    if (this.own !== undefined) root.current_data = this.#emptyAt(this.own)
    if (this.#wrapper !== undefined) {
      const wrapper = root.landing_page = this.#emptyAt(this.#wrapper)
      if (isObject(wrapper) && this.wrapped !== undefined) wrapper.current_data = this.#emptyAt(this.wrapped)
      if (isObject(wrapper) && this.#hasOthersWrapped) wrapper.other = null
    }
    return root
  }

  #emptyAt ({ start }: JsonValue): unknown {
    return emptyLike(this.#bytes[start])
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value of the type of the JSON text that begins with this byte. */
function emptyLike (first: number | undefined): unknown {
  switch (String.fromCharCode(first ?? 0)) {
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
