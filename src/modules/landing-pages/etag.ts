import type { IncomingHttpHeaders } from 'node:http'
import { entityTag } from '../../http/content-encoding.ts'
import { parseHttpDate, parseTagList, type Comparison,
  type Validators } from '../../http/conditional-requests.ts'

// The entity tag of a document (RFC 9110, 8.8.3) is its hash. A record's tag also has the version, because a
// record contains the time of its last write, and once the page's key has changed, the time of that.
// http/content-encoding.ts handles those of other encodings.

/** What the tags of a page are made of. */
interface PageState {
  readonly contentHash: string
  readonly version: bigint
  readonly updatedAt: Date
  readonly keyChangedAt: Date | null
}

/** Returns the strong tag of a page's record, without quotes. */
export const recordTag = ({ contentHash, version, keyChangedAt }: PageState): string =>
  `${contentHash}.${version}${keyChangedAt === null ? '' : `.${keyChangedAt.getTime()}`}`

/** When a page's record changed: its document, its state or its key. */
export const recordChangedAt = ({ updatedAt, keyChangedAt }: PageState): Date =>
  keyChangedAt !== null && keyChangedAt > updatedAt ? keyChangedAt : updatedAt

/** Returns the validators of a page's record. Preconditions may also name the tags of its document. */
export const recordValidators = (page: PageState): Validators => ({
  etag: `"${recordTag(page)}"`,
  otherTags: [entityTag(page.contentHash)],
  modifiedAt: recordChangedAt(page)
})

/** Returns the validators of a page's document. Preconditions may also name the tag of its record. */
export const documentValidators = (page: PageState): Validators => ({
  etag: entityTag(page.contentHash),
  otherTags: [`"${recordTag(page)}"`],
  modifiedAt: page.updatedAt
})

/** Returns the validators of a draft. */
export const draftValidators = (draft: { contentHash: string, updatedAt: Date }): Validators => ({
  etag: entityTag(draft.contentHash),
  modifiedAt: draft.updatedAt
})

/** The preconditions of a write as parameters of its statement; null for those that it doesn't have. */
export interface WriteConditions {
  /** Each is `*`, the hash of a document, or the tag of a record. */
  readonly ifMatch: readonly string[] | null
  readonly ifNoneMatch: readonly string[] | null
  readonly unmodifiedSince: Date | null
}

export const NO_CONDITIONS: WriteConditions = { ifMatch: null, ifNoneMatch: null, unmodifiedSince: null }

/** A tag of a record or of a document. Others match no page, and their numbers may be too large for SQL. */
const TAG_OF_A_PAGE = /^[\w-]{43}(\.[1-9]\d{0,17}(\.\d{1,15})?)?$/

export function writeConditions (headers: IncomingHttpHeaders): WriteConditions {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers
  // If-Match makes If-Unmodified-Since void (RFC 9110, 13.1.4).
  const since = ifMatch === undefined ? parseHttpDate(headers['if-unmodified-since']) : undefined
  return {
    ifMatch: ifMatch === undefined ? null : tagsOfPages(ifMatch, 'strong'),
    ifNoneMatch: ifNoneMatch === undefined ? null : tagsOfPages(ifNoneMatch, 'weak'),
    unmodifiedSince: since === undefined ? null : new Date(since)
  }
}

function tagsOfPages (header: string, comparison: Comparison): string[] {
  const tags = parseTagList(header, comparison)
  return tags === '*' ? [tags] : tags.filter((tag) => TAG_OF_A_PAGE.test(tag))
}
