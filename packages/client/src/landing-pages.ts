import type { components } from './api.ts'
import { splitMembers, toJsonText } from './exact-json.ts'
import type { PublicDocument, PublishedDocuments } from './published-documents.ts'
import { getEtag, getNextCursor, iterate, unwrap, unwrapDeletion, type Api, type CallOptions, type List,
  type ListOptions } from './responses.ts'

type Fields = components['schemas']['LandingPage']

export interface LandingPage<Document = unknown> extends Omit<Fields, 'current_data'> {
  readonly current_data: Document
  /** `current_data` exactly as it was sent, with all digits of its numbers. */
  readonly text: string
}

export interface VersionedLandingPage<Document = unknown> extends LandingPage<Document> {
  /** Identifies this version of the document, for `ifMatch`. */
  readonly etag: string
}

export interface WriteOptions extends CallOptions {
  /** An `etag`. The call rejects with a `PreconditionFailedError` unless the document still has it. */
  readonly ifMatch?: string
}

/**
 * The landing pages of the account, and any published page by its `public_id`. A document to write is an
 * object or array, or JSON text in `exactJson(…)`. The type argument `Document` isn't checked at run time.
 */
export interface LandingPages {
  create<Document = unknown>(document: object, options?: CallOptions): Promise<VersionedLandingPage<Document>>
  get<Document = unknown>(id: string, options?: CallOptions): Promise<VersionedLandingPage<Document>>
  /** Replaces the whole document. */
  update<Document = unknown>(
    id: string,
    document: object,
    options?: WriteOptions
  ): Promise<VersionedLandingPage<Document>>
  delete(id: string, options?: WriteOptions): Promise<void>
  /** Iterates over all pages, newest first. */
  list<Document = unknown>(options?: ListOptions): AsyncGenerator<LandingPage<Document>, void, undefined>
  /** Returns one part of the list. */
  listPage<Document = unknown>(options?: ListOptions): Promise<List<LandingPage<Document>>>
  /**
   * Reads a published document. An unchanged document from an earlier read isn't transferred again, and is
   * used when the service can't answer.
   */
  read<Document = unknown>(publicId: string, options?: CallOptions): Promise<PublicDocument<Document>>
}

export function createLandingPages (api: Api, published: PublishedDocuments): LandingPages {
  const listPage = async <Document>(options?: ListOptions) => await requestList<Document>(api, options)
  return {
    async create (document, { signal } = {}) {
      return await unwrapPage(api.POST('/landing_pages', {
        ...createBody(document),
        parseAs: 'text',
        signal
      }))
    },
    async get (id, { signal } = {}) {
      return await unwrapPage(api.GET('/manage/landing_pages/{id}', {
        params: { path: { id } },
        parseAs: 'text',
        signal
      }))
    },
    async update (id, document, { signal, ifMatch } = {}) {
      return await unwrapPage(api.PATCH('/manage/landing_pages/{id}', {
        params: { path: { id } },
        headers: { 'if-match': ifMatch },
        ...createBody(document),
        parseAs: 'text',
        signal
      }))
    },
    async delete (id, { signal, ifMatch } = {}) {
      await unwrapDeletion(api.DELETE('/manage/landing_pages/{id}', {
        params: { path: { id } },
        headers: { 'if-match': ifMatch },
        signal
      }))
    },
    list: <Document>(options: ListOptions = {}) => iterate(listPage<Document>, options),
    listPage,
    read: async (publicId, options) => await published.read(publicId, options)
  }
}

async function requestList<Document> (
  api: Api,
  { limit, cursor, signal }: ListOptions = {}
): Promise<List<LandingPage<Document>>> {
  const { data, response } = await unwrap(api.GET('/manage/landing_pages', {
    params: { query: { limit, cursor } },
    parseAs: 'text',
    signal
  }))
  return {
    items: splitMembers(data).map(({ text }) => parsePage<Document>(text)),
    next: getNextCursor(response)
  }
}

/** The serialiser writes the exact text of the document; `body` only satisfies the types. */
const createBody = (document: object) => ({
  body: { current_data: {} },
  bodySerializer: () => `{"current_data":${toJsonText(document)}}`
})

async function unwrapPage<Document> (
  result: Promise<{ data?: string, error?: unknown, response: Response }>
): Promise<VersionedLandingPage<Document>> {
  const { data, response } = await unwrap(result)
  return { ...parsePage<Document>(data), etag: getEtag(response) }
}

function parsePage<Document> (json: string): LandingPage<Document> {
  const record = JSON.parse(json) as Fields & { current_data: Document }
  return { ...record, text: splitMembers(json).find(({ name }) => name === 'current_data')?.text ?? 'null' }
}
