import type { components } from './api.ts'
import { unwrapDocument, type OwnDocument } from './documents.ts'
import { changeHeaders, unwrapPage, type ChangeOptions, type VersionedLandingPage } from './records.ts'
import { iterate, unwrapList, type Api, type CallOptions, type List, type ListOptions } from './responses.ts'

export type Revision = components['schemas']['Revision']

/** The versions of the account's pages. */
export interface Revisions {
  /** Iterates over the versions of a page, newest first, without their documents. */
  revisions(id: string, options?: ListOptions): AsyncGenerator<Revision, void, undefined>
  /** Returns one part of the list. */
  revisionsPage(id: string, options?: ListOptions): Promise<List<Revision>>
  /** Reads the document of a version. */
  getRevision<Document = unknown>(
    id: string,
    version: number,
    options?: CallOptions
  ): Promise<OwnDocument<Document>>
  /** Writes the document of a version as a new version. */
  restoreRevision<Document = unknown>(
    id: string,
    version: number,
    options?: ChangeOptions
  ): Promise<VersionedLandingPage<Document>>
}

export function createRevisions (api: Api): Revisions {
  const revisionsPage = async (id: string, { signal, ...query }: ListOptions = {}) =>
    await unwrapList(api.GET('/manage/landing_pages/{id}/revisions', {
      params: { path: { id }, query },
      signal
    }))
  return {
    revisions: (id, options = {}) => iterate(async (part) => await revisionsPage(id, part), options),
    revisionsPage,
    async getRevision (id, version, { signal } = {}) {
      return await unwrapDocument(api.GET('/manage/landing_pages/{id}/revisions/{version}', {
        params: { path: { id, version: String(version) } },
        parseAs: 'text',
        signal
      }))
    },
    async restoreRevision (id, version, { signal, ...options } = {}) {
      return await unwrapPage(api.POST('/manage/landing_pages/{id}/revisions/{version}/restore', {
        params: { path: { id, version: String(version) } },
        headers: changeHeaders(options),
        parseAs: 'text',
        signal
      }))
    }
  }
}
