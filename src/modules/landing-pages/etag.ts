import { entityTag } from '../../http/content-encoding.ts'
import type { Validators } from '../../http/conditional-requests.ts'

// The entity tag of a document (RFC 9110, 8.8.3) is its hash. A record's tag also has the version, because a
// record contains the time of its last write, and once the page's key has changed, the time of that.
// http/content-encoding.ts handles those of other encodings.

/** What the tags of a page are made of. */
export interface PageState {
  readonly contentHash: string
  readonly version: bigint
  readonly updatedAt: Date
  readonly keyChangedAt: Date | null
}

const recordTag = ({ contentHash, version, keyChangedAt }: PageState): string =>
  `"${contentHash}.${version}${keyChangedAt === null ? '' : `.${keyChangedAt.getTime()}`}"`

/** When a page's record changed: its document, its state or its key. */
export const recordChangedAt = ({ updatedAt, keyChangedAt }: PageState): Date =>
  keyChangedAt !== null && keyChangedAt > updatedAt ? keyChangedAt : updatedAt

/** Returns the validators of a page's record. Preconditions may also name the tags of its document. */
export const recordValidators = (page: PageState): Validators => ({
  etag: recordTag(page),
  otherTags: [entityTag(page.contentHash)],
  modifiedAt: recordChangedAt(page)
})

/** Returns the validators of a page's document. Preconditions may also name the tag of its record. */
export const documentValidators = (page: PageState): Validators => ({
  etag: entityTag(page.contentHash),
  otherTags: [recordTag(page)],
  modifiedAt: page.updatedAt
})

/** Returns the validators of a draft. */
export const draftValidators = (draft: { contentHash: string, updatedAt: Date }): Validators => ({
  etag: entityTag(draft.contentHash),
  modifiedAt: draft.updatedAt
})
