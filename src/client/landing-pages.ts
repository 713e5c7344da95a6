import type { components } from './api.ts'
import { EtagCache, type CacheOptions } from './etag-cache.ts'
import { errorOf } from './errors.ts'
import { jsonText, membersOf } from './exact-json.ts'
import { deleted, itemsOf, nextCursor, unwrap, type Api, type CallOptions, type List, type ListOptions } from './answers.ts'

type Fields = components['schemas']['LandingPage']

export interface LandingPage<Document = unknown> extends Omit<Fields, 'current_data'> {
  readonly current_data: Document
  /** `current_data` exactly as it was sent: numbers keep all of their digits. */
  readonly text: string
}

export interface VersionedLandingPage<Document = unknown> extends LandingPage<Document> {
  /** Of this version of the document, for `ifMatch`. */
  readonly etag: string
}

export interface PublicDocument<Document = unknown> {
  readonly document: Document
  /** The document exactly as it was sent. */
  readonly text: string
  readonly etag: string
  /** The service said that it hasn't changed since this client read it last. */
  readonly notModified: boolean
}

export interface WriteOptions extends CallOptions {
  /** An `etag`: write only if the document is still that version, or reject with a `PreconditionFailedError`. */
  readonly ifMatch?: string
}

/**
 * Landing Pages: those of the account, and any of them by its `public_id`. The types of documents are what the caller
 * says they are; nothing checks them. Documents to write are objects or arrays, or JSON text in `exactJson(…)`.
 */
export interface LandingPages {
  create<Document = unknown> (document: object, options?: CallOptions): Promise<VersionedLandingPage<Document>>
  get<Document = unknown> (id: string, options?: CallOptions): Promise<VersionedLandingPage<Document>>
  /** Replaces the whole document. */
  update<Document = unknown> (id: string, document: object, options?: WriteOptions): Promise<VersionedLandingPage<Document>>
  delete (id: string, options?: WriteOptions): Promise<void>
  /** All pages, newest first. */
  list<Document = unknown> (options?: ListOptions): AsyncGenerator<LandingPage<Document>, void, undefined>
  /** One part of them. */
  listPage<Document = unknown> (options?: ListOptions): Promise<List<LandingPage<Document>>>
  /** Reads a document as anyone may. What has not changed since the last time is not sent again. */
  read<Document = unknown> (publicId: string, options?: CallOptions): Promise<PublicDocument<Document>>
}

export function landingPagesOf (api: Api, cacheOptions?: CacheOptions): LandingPages {
  const cache = new EtagCache(cacheOptions)

  const listPage = async <Document>({ limit, cursor, signal }: ListOptions = {}): Promise<List<LandingPage<Document>>> => {
    const { data, response } = await unwrap(api.GET('/manage/landing_pages', { params: { query: { limit, cursor } }, parseAs: 'text', signal }))
    return { items: membersOf(data).map(({ text }) => pageOf<Document>(text)), next: nextCursor(response) }
  }
  return {
    async create (document, { signal } = {}) {
      return await versioned(api.POST('/landing_pages', { ...bodyOf(document), parseAs: 'text', signal }))
    },
    async get (id, { signal } = {}) {
      return await versioned(api.GET('/manage/landing_pages/{id}', { params: { path: { id } }, parseAs: 'text', signal }))
    },
    async update (id, document, { signal, ifMatch } = {}) {
      return await versioned(api.PATCH('/manage/landing_pages/{id}', { params: { path: { id } }, headers: conditions(ifMatch), ...bodyOf(document), parseAs: 'text', signal }))
    },
    async delete (id, { signal, ifMatch } = {}) {
      await deleted(api.DELETE('/manage/landing_pages/{id}', { params: { path: { id } }, headers: conditions(ifMatch), signal }))
    },
    list: <Document>(options: ListOptions = {}) => itemsOf(listPage<Document>, options),
    listPage,
    async read<Document> (publicId: string, { signal }: CallOptions = {}) {
      const known = cache.get(publicId)
      const { data, error, response } = await api.GET('/landing_pages/{public_id}', {
        params: { path: { public_id: publicId } },
        headers: { 'if-none-match': known?.etag },
        parseAs: 'text',
        signal
      })
      const notModified = response.status === 304 && known !== undefined
      if (!response.ok && !notModified) {
        if (response.status === 404) cache.delete(publicId)
        throw errorOf(response, error)
      }
      const read = notModified ? known : { text: data as string, etag: etagOf(response) }
      if (!notModified && read.etag !== '') cache.set(publicId, read)
      // Parsed each time: what one caller does to the document is not to reach the next.
      return { ...read, document: JSON.parse(read.text) as Document, notModified }
    }
  }
}

const conditions = (ifMatch: string | undefined) => ({ 'if-match': ifMatch })

/** The serialiser is what counts: the text goes out as it is. */
const bodyOf = (document: object) => ({
  body: { current_data: {} },
  bodySerializer: () => `{"current_data":${jsonText(document)}}`
})

async function versioned<Document> (answer: Promise<{ data?: string, error?: unknown, response: Response }>): Promise<VersionedLandingPage<Document>> {
  const { data, response } = await unwrap(answer)
  return { ...pageOf<Document>(data), etag: etagOf(response) }
}

function pageOf<Document> (json: string): LandingPage<Document> {
  const record = JSON.parse(json) as Fields & { current_data: Document }
  return { ...record, text: membersOf(json).find(({ name }) => name === 'current_data')?.text ?? 'null' }
}

const etagOf = (response: Response): string => response.headers.get('etag') ?? ''
