import type { components } from './api.ts'
import { createOwnDocuments, type OwnDocument, type PatchOptions } from './documents.ts'
import { ofPage, unwrapPage, type ChangeOptions, type VersionedLandingPage,
  type WriteOptions } from './records.ts'
import { iterate, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions, type List,
  type ListOptions } from './responses.ts'

/** Whether a page is published, and what its draft is. */
export type Publication = components['schemas']['Publication']

/** When a page is published and unpublished. */
export type Schedule = components['schemas']['Schedule']

/** A page in the trash. */
export type DeletedLandingPage = components['schemas']['DeletedLandingPage']

export interface PublishOptions extends ChangeOptions {
  /** The current version, to publish the draft although the document has changed since it was begun. */
  readonly baseVersion?: number
}

/** Times to set: a `Date`, or text with an offset (RFC 3339). Missing ones are removed. */
export interface ScheduledTimes {
  readonly publishAt?: Date | string | null
  readonly unpublishAt?: Date | string | null
}

/** The drafts of the account's pages, what readers get and when, and the trash. */
export interface Publications {
  /** Rejects with a `NotFoundError` when the page has no draft. */
  getDraft<Document = unknown>(id: string, options?: WriteOptions): Promise<OwnDocument<Document>>
  /** Writes the draft, which readers don't see. */
  putDraft(id: string, document: object, options?: WriteOptions): Promise<{ etag: string }>
  /** Changes parts of the draft. Without one, it begins with the document. */
  patchDraft(id: string, patch: object, options: PatchOptions): Promise<{ etag: string }>
  discardDraft(id: string, options?: WriteOptions): Promise<void>
  publication(id: string, options?: CallOptions): Promise<Publication>
  /**
   * Publishes the draft, or without one the unpublished page. `ifMatch` names the draft. Rejects with a
   * `ConflictError` when the document has changed since the draft was begun.
   */
  publish<Document = unknown>(id: string, options?: PublishOptions): Promise<VersionedLandingPage<Document>>
  /** Takes the document away from readers. */
  unpublish<Document = unknown>(id: string, options?: ChangeOptions): Promise<VersionedLandingPage<Document>>
  /** Both times are null without a schedule. */
  getSchedule(id: string, options?: CallOptions): Promise<Schedule>
  /**
   * Sets when the draft, or the unpublished page, is published, and when the page is unpublished. `ifMatch`
   * names the draft. Until it is published, changes of the draft reject with a `ConflictError`.
   */
  setSchedule(id: string, times: ScheduledTimes, options?: WriteOptions): Promise<Schedule>
  removeSchedule(id: string, options?: WriteOptions): Promise<void>
  /** Iterates over the pages in the trash, the last deleted first. */
  deletedPages(options?: ListOptions): AsyncGenerator<DeletedLandingPage, void, undefined>
  /** Returns one part of the trash. */
  deletedPagesPage(options?: ListOptions): Promise<List<DeletedLandingPage>>
  /** Takes a page out of the trash. */
  undelete<Document = unknown>(id: string, options?: ChangeOptions): Promise<VersionedLandingPage<Document>>
  /** Removes a page in the trash for good. */
  purge(id: string, options?: WriteOptions): Promise<void>
}

export function createPublications (api: Api): Publications {
  const draft = createOwnDocuments(api, '/manage/landing_pages/{id}/draft')
  const deletedPagesPage = async ({ signal, ...query }: ListOptions = {}) =>
    await unwrapList(api.GET('/manage/deleted_pages', { params: { query }, signal }))
  return {
    getDraft: draft.getDocument,
    putDraft: draft.putDocument,
    patchDraft: draft.patchDocument,
    async discardDraft (id, options = {}) {
      await unwrapDeletion(api.DELETE('/manage/landing_pages/{id}/draft', ofPage(id, options)))
    },
    async publication (id, options) {
      return (await unwrap(api.GET('/manage/landing_pages/{id}/publication', ofPage(id, options)))).data
    },
    async publish (id, { baseVersion, ...options } = {}) {
      return await unwrapPage(api.POST('/manage/landing_pages/{id}/publish', {
        ...ofPage(id, options),
        body: baseVersion === undefined ? {} : { base_version: baseVersion },
        parseAs: 'text'
      }))
    },
    async unpublish (id, options = {}) {
      return await unwrapPage(api.POST('/manage/landing_pages/{id}/unpublish', {
        ...ofPage(id, options),
        parseAs: 'text'
      }))
    },
    async getSchedule (id, options) {
      return (await unwrap(api.GET('/manage/landing_pages/{id}/schedule', ofPage(id, options)))).data
    },
    async setSchedule (id, { publishAt, unpublishAt }, options = {}) {
      return (await unwrap(api.PUT('/manage/landing_pages/{id}/schedule', {
        ...ofPage(id, options),
        body: { publish_at: timeOf(publishAt), unpublish_at: timeOf(unpublishAt) }
      }))).data
    },
    async removeSchedule (id, options = {}) {
      await unwrapDeletion(api.DELETE('/manage/landing_pages/{id}/schedule', ofPage(id, options)))
    },
    deletedPages: (options = {}) => iterate(deletedPagesPage, options),
    deletedPagesPage,
    async undelete (id, options = {}) {
      return await unwrapPage(api.POST('/manage/deleted_pages/{id}/restore', {
        ...ofPage(id, options),
        parseAs: 'text'
      }))
    },
    async purge (id, options = {}) {
      await unwrapDeletion(api.DELETE('/manage/deleted_pages/{id}', ofPage(id, options)))
    }
  }
}

const timeOf = (time: Date | string | null | undefined): string | null =>
  time instanceof Date ? time.toISOString() : time ?? null
