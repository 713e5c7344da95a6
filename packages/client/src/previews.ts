import type { components } from './api.ts'
import { unwrapDocument, type OwnDocument } from './documents.ts'
import { iterate, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions, type List,
  type ListOptions } from './responses.ts'

/** A preview link without its token, which the service doesn't know. */
export type PreviewLink = components['schemas']['PreviewLink']

/** A new preview link. Its `token` is shown only this once. */
export type NewPreviewLink = components['schemas']['NewPreviewLink']

/** What a preview link shows. */
export interface Preview<Document = unknown> extends OwnDocument<Document> {
  /** Whether this is the draft, and not the document of a page without one. */
  readonly isDraft: boolean
}

export interface PreviewLinkOptions extends CallOptions {
  /** For the list of links. */
  readonly name?: string
  /** Seconds until the link expires, 300 to 2,592,000. Default: a week. */
  readonly expiresIn?: number
}

export interface ReadPreviewOptions<Document = unknown> extends CallOptions {
  /** The result of an earlier read. It is returned if nothing has changed, and nothing is transferred. */
  readonly known?: Preview<Document> | undefined
}

/** Links with which others read the drafts of the account's pages, and the read with such a link. */
export interface Previews {
  createPreviewLink(id: string, options?: PreviewLinkOptions): Promise<NewPreviewLink>
  /** Iterates over the links of a page that have not expired, newest first. */
  previewLinks(id: string, options?: ListOptions): AsyncGenerator<PreviewLink, void, undefined>
  /** Returns one part of the links of a page. */
  previewLinksPage(id: string, options?: ListOptions): Promise<List<PreviewLink>>
  /** The link is refused from then on. */
  deletePreviewLink(id: string, linkId: string, options?: CallOptions): Promise<void>
  /**
   * Reads the draft of a page, or else its document, with the token of a link. Needs no sign-in. Rejects with
   * a `LandfallError` of status 401 when the token isn't valid for this page.
   */
  readPreview<Document = unknown>(
    publicId: string,
    token: string,
    options?: ReadPreviewOptions<Document>
  ): Promise<Preview<Document>>
}

export function createPreviews (api: Api): Previews {
  const path = '/manage/landing_pages/{id}/preview_links'
  const previewLinksPage = async (id: string, { signal, ...query }: ListOptions = {}) =>
    await unwrapList(api.GET(path, { params: { path: { id }, query }, signal }))
  return {
    async createPreviewLink (id, { name, expiresIn, signal } = {}) {
      const body = { name, expires_in: expiresIn }
      return (await unwrap(api.POST(path, { params: { path: { id } }, body, signal }))).data
    },
    previewLinks: (id, options = {}) => iterate(async (part) => await previewLinksPage(id, part), options),
    previewLinksPage,
    async deletePreviewLink (id, linkId, { signal } = {}) {
      const params = { path: { id, link_id: linkId } }
      await unwrapDeletion(api.DELETE(`${path}/{link_id}`, { params, signal }))
    },
    async readPreview<Document> (
      publicId: string,
      token: string,
      { known, signal }: ReadPreviewOptions<Document> = {}
    ) {
      const result = await api.GET('/previews/{public_id}', {
        params: { path: { public_id: publicId } },
        headers: { authorization: `Bearer ${token}`, 'if-none-match': known?.etag },
        parseAs: 'text',
        signal
      })
      const { status, headers } = result.response
      const isDraft = headers.get('landfall-preview') === 'draft'
      if (status === 304 && known !== undefined) return { ...known, isDraft }
      return { ...await unwrapDocument<Document>(Promise.resolve(result)), isDraft }
    }
  }
}
