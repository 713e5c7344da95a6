import type { components } from './api.ts'
import { createOwnDocuments, type OwnDocuments } from './documents.ts'
import { splitMembers, toJsonText } from './exact-json.ts'
import { createPreviews, type Previews } from './previews.ts'
import { createPublications, type Publications } from './publication.ts'
import type { PublicDocument, PublishedDocuments } from './published-documents.ts'
import { changeHeaders, createBody, ofPage, parsePage, receivedIn, unwrapPage, type ChangeOptions,
  type LandingPage, type PageFields, type Received, type VersionedLandingPage, type WaitOptions,
  type WriteOptions } from './records.ts'
import { createRevisions, type Revisions } from './revisions.ts'
import { getEtag, getNextCursor, iterate, toTimeText, unwrap, unwrapDeletion, unwrapList, type Api,
  type CallOptions, type List, type SearchOptions } from './responses.ts'

/** A page without its document, with its label and the reads of the last 24 hours. */
export type LandingPageSummary = components['schemas']['LandingPageSummary']

/** `updated` has the latest change first, `label` is A to Z. */
export type LandingPageListOptions = SearchOptions<'created' | 'updated' | 'label'>

export interface ChangedPagesOptions extends LandingPageListOptions {
  /** Only pages whose `updated_at` is not before this time, the oldest change first. Not with `sort`. */
  readonly updatedSince?: Date | string
}

/** The reads of an hour or a day. */
export type ReadCount = components['schemas']['ReadCount']

export interface ReadsOptions extends CallOptions {
  /** A time or a date, as text such as `2026-11-23`. Default: 24 hours or 30 days before `to`. */
  readonly from?: Date | string
  /** Default: now. */
  readonly to?: Date | string
  /** Default: `hour`. */
  readonly per?: 'hour' | 'day'
}

/**
 * The landing pages of the account, and any published page by its `public_id`. A document to write is an
 * object or array, or JSON text in `exactJson(…)`. The type argument `Document` isn't checked at run time.
 */
export interface LandingPages extends OwnDocuments, Previews, Publications, Revisions {
  /** Creates a page, which readers get unless `published` is false. */
  create<Document = unknown>(
    document: object,
    options?: CallOptions & PageFields & WaitOptions
  ): Promise<VersionedLandingPage<Document>>
  get<Document = unknown>(id: string, options?: CallOptions): Promise<VersionedLandingPage<Document>>
  /** Replaces the whole document, and the key if it is given. */
  update<Document = unknown>(
    id: string,
    document: object,
    options?: ChangeOptions & Pick<PageFields, 'key'>
  ): Promise<VersionedLandingPage<Document>>
  /** Replaces the key alone; null removes it. */
  setKey<Document = unknown>(
    id: string,
    key: string | null,
    options?: WriteOptions
  ): Promise<VersionedLandingPage<Document>>
  /** Rejects with a `NotFoundError` when no page has the key. */
  getByKey<Document = unknown>(key: string, options?: CallOptions): Promise<VersionedLandingPage<Document>>
  /** Replaces the document of the page with the key, or creates it. With `ifMatch` it only replaces. */
  putByKey(
    key: string,
    document: object,
    options?: ChangeOptions & {
      /** Rejects with a `PreconditionFailedError` when there is a page already. */
      readonly createOnly?: boolean
    }
  ): Promise<{ etag: string, created: boolean } & Received>
  /** Puts the page into the trash. */
  delete(id: string, options?: ChangeOptions): Promise<Received>
  /** Iterates over all pages, or those with a text. */
  list<Document = unknown>(
    options?: ChangedPagesOptions
  ): AsyncGenerator<LandingPage<Document>, void, undefined>
  /** Returns one part of the list. */
  listPage<Document = unknown>(options?: ChangedPagesOptions): Promise<List<LandingPage<Document>>>
  /** Iterates over pages without their documents. */
  summaries(options?: LandingPageListOptions): AsyncGenerator<LandingPageSummary, void, undefined>
  /** Returns one part of the summaries. */
  summariesPage(options?: LandingPageListOptions): Promise<List<LandingPageSummary>>
  /**
   * Reads a published document. An unchanged document from an earlier read isn't transferred again, and is
   * used when the service can't answer.
   */
  read<Document = unknown>(publicId: string, options?: CallOptions): Promise<PublicDocument<Document>>
  /** Counts how often a page was read, by hour or day in UTC, in ascending order. */
  reads(id: string, options?: ReadsOptions): Promise<ReadCount[]>
}

export function createLandingPages (api: Api, published: PublishedDocuments): LandingPages {
  const listPage = async <Document>(options?: ChangedPagesOptions) =>
    await requestList<Document>(api, options)
  const summariesPage = async ({ signal, ...query }: LandingPageListOptions = {}) =>
    await unwrapList(api.GET('/manage/landing_page_summaries', { params: { query }, signal }))
  return {
    async create (document, { signal, wait, ...fields } = {}) {
      return await unwrapPage(api.POST('/landing_pages', {
        headers: changeHeaders({ wait }),
        ...createBody(document, fields),
        parseAs: 'text',
        signal
      }))
    },
    async get (id, options) {
      const call = { ...ofPage(id, options), parseAs: 'text' } as const
      return await unwrapPage(api.GET('/manage/landing_pages/{id}', call))
    },
    async update (id, document, { key, ...options } = {}) {
      const call = { ...ofPage(id, options), ...createBody(document, { key }), parseAs: 'text' } as const
      return await unwrapPage(api.PATCH('/manage/landing_pages/{id}', call))
    },
    async setKey (id, key, options) {
      const call = { ...ofPage(id, options), body: { key }, parseAs: 'text' } as const
      return await unwrapPage(api.PATCH('/manage/landing_pages/{id}', call))
    },
    async getByKey (key, { signal } = {}) {
      return await unwrapPage(api.GET('/manage/landing_pages/by-key/{key}', {
        params: { path: { key } },
        parseAs: 'text',
        signal
      }))
    },
    async putByKey (key, document, { signal, createOnly = false, ...options } = {}) {
      const { response } = await unwrap(api.PUT('/manage/landing_pages/by-key/{key}', {
        params: { path: { key } },
        headers: { ...changeHeaders(options), 'if-none-match': createOnly ? '*' : undefined },
        body: {},
        bodySerializer: () => toJsonText(document),
        parseAs: 'text',
        signal
      }))
      return { etag: getEtag(response), created: response.status === 201, ...receivedIn(response) }
    },
    async delete (id, options) {
      return receivedIn(await unwrapDeletion(api.DELETE('/manage/landing_pages/{id}', ofPage(id, options))))
    },
    list: <Document>(options: ChangedPagesOptions = {}) => iterate(listPage<Document>, options),
    listPage,
    summaries: (options = {}) => iterate(summariesPage, options),
    summariesPage,
    read: async (publicId, options) => await published.read(publicId, options),
    async reads (id, { from, to, per, signal } = {}) {
      return (await unwrap(api.GET('/manage/landing_pages/{id}/reads', {
        params: { path: { id }, query: { from: toTimeText(from), to: toTimeText(to), per } },
        signal
      }))).data
    },
    ...createOwnDocuments(api, '/manage/landing_pages/{id}/document'),
    ...createPreviews(api),
    ...createPublications(api),
    ...createRevisions(api)
  }
}

async function requestList<Document> (
  api: Api,
  { signal, updatedSince, ...query }: ChangedPagesOptions = {}
): Promise<List<LandingPage<Document>>> {
  const { data, response } = await unwrap(api.GET('/manage/landing_pages', {
    params: { query: { ...query, updated_since: toTimeText(updatedSince) } },
    parseAs: 'text',
    signal
  }))
  return {
    items: splitMembers(data).map(({ text }) => parsePage<Document>(text)),
    next: getNextCursor(response)
  }
}
