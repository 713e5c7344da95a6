import { toJsonText } from './exact-json.ts'
import { createError } from './errors.ts'
import { ofPage, receivedIn, type ChangeOptions, type Received, type WriteOptions } from './records.ts'
import { getEtag, unwrap, type Api, type Result } from './responses.ts'
import { isAfterUnavailable } from './retry.ts'

/** A document of one's own, without its record. */
export interface OwnDocument<Document = unknown> {
  readonly document: Document
  /** The document exactly as it was sent. */
  readonly text: string
  readonly etag: string
}

export interface PatchOptions extends ChangeOptions {
  /** A list of operations (RFC 6902), or the members to change (RFC 7396). */
  readonly type: 'json-patch' | 'merge-patch'
}

/** The documents of the account's pages, without their records. */
export interface OwnDocuments {
  /** With `ifMatch` it rejects with a `PreconditionFailedError` unless the document still has that ETag. */
  getDocument<Document = unknown>(id: string, options?: WriteOptions): Promise<OwnDocument<Document>>
  /** Replaces the document. */
  putDocument(id: string, document: object, options?: ChangeOptions): Promise<{ etag: string } & Received>
  /**
   * Changes parts of the document; every byte that the patch doesn't name stays as it was. Rejects with a
   * `ConflictError` when a `test` fails. Numbers in an `exactJson(…)` patch keep their digits.
   */
  patchDocument(id: string, patch: object, options: PatchOptions): Promise<{ etag: string } & Received>
}

/** Creates the calls for the document of a page, or for its draft. */
export function createOwnDocuments (
  api: Api,
  path: '/manage/landing_pages/{id}/document' | '/manage/landing_pages/{id}/draft'
): OwnDocuments {
  const getDocument = async <Document>(id: string, options?: WriteOptions) =>
    await unwrapDocument<Document>(api.GET(path, { ...ofPage(id, options), parseAs: 'text' }))
  return {
    getDocument,
    async putDocument (id, document, options = {}) {
      const text = toJsonText(document)
      const call = { ...ofPage(id, options), body: {}, bodySerializer: () => text }
      const { error, response } = await api.PUT(path, call)
      if (response.ok) return { etag: getEtag(response), ...receivedIn(response) }
      if (response.status === 412 && isAfterUnavailable(response)) {
        // The request that got a 503 may have stored the document, and so have changed its ETag.
        const current = await getDocument(id, { signal: options.signal })
        if (current.text === text) return { etag: current.etag }
      }
      throw createError(response, error)
    },
    async patchDocument (id, patch, { type, ...options }) {
      const { headers, ...call } = ofPage(id, options)
      const { response } = await unwrap(api.PATCH(path, {
        ...call,
        headers: { ...headers, 'content-type': `application/${type}+json` },
        body: {},
        bodySerializer: () => toJsonText(patch)
      }))
      return { etag: getEtag(response), ...receivedIn(response) }
    }
  }
}

/** Returns the document in a response. @throws {LandfallError} when the service answered with an error */
export async function unwrapDocument<Document> (
  result: Promise<Result<string>>
): Promise<OwnDocument<Document>> {
  const { data: text, response } = await unwrap(result)
  return { document: JSON.parse(text) as Document, text, etag: getEtag(response) }
}
