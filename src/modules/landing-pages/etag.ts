import type { IncomingHttpHeaders } from 'node:http'
import { entityTag } from '../../http/content-encoding.ts'
import { parseHttpDate, parseTagList, type Comparison,
  type Validators } from '../../http/conditional-requests.ts'

// The entity tag of a document (RFC 9110, 8.8.3) is its hash. A record's tag also has the version, because a
// record contains the time of its last write. http/compressed-responses.ts handles those of other encodings.

/** Returns the strong tag of a page's record. */
const recordTag = (page: { contentHash: string, version: bigint }): string =>
  `"${page.contentHash}.${page.version}"`

/** Returns the validators of a page's record. Preconditions may also name the tags of its document. */
export const recordValidators = (
  page: { contentHash: string, version: bigint, updatedAt: Date }
): Validators => ({
  etag: recordTag(page),
  otherTags: [entityTag(page.contentHash)],
  modifiedAt: page.updatedAt
})

/** Returns the validators of a page's document. Preconditions may also name the tag of its record. */
export const documentValidators = (
  page: { contentHash: string, version: bigint, updatedAt: Date }
): Validators => ({
  etag: entityTag(page.contentHash),
  otherTags: [recordTag(page)],
  modifiedAt: page.updatedAt
})

/** Returns the validators of a draft. */
export const draftValidators = (draft: { contentHash: string, updatedAt: Date }): Validators => ({
  etag: entityTag(draft.contentHash),
  modifiedAt: draft.updatedAt
})

/** The preconditions of a write as parameters of its statement; null for those that it doesn't have. */
export interface WriteConditions {
  /** Each is `*`, the hash of a document, or a hash and a version. */
  readonly ifMatch: readonly string[] | null
  readonly ifNoneMatch: readonly string[] | null
  readonly unmodifiedSince: Date | null
}

/** A tag of a record or of a document. */
const WRITABLE_TAG = /^[\w-]{43}(\.[1-9]\d{0,17})?$/

export function writeConditions (headers: IncomingHttpHeaders): WriteConditions {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers
  const since = ifMatch === undefined ? parseHttpDate(headers['if-unmodified-since']) : undefined
  return {
    ifMatch: ifMatch === undefined ? null : writableTags(ifMatch, 'strong'),
    ifNoneMatch: ifNoneMatch === undefined ? null : writableTags(ifNoneMatch, 'weak'),
    unmodifiedSince: since === undefined ? null : new Date(since)
  }
}

function writableTags (header: string, comparison: Comparison): string[] {
  const tags = parseTagList(header, comparison)
  return tags === '*' ? [tags] : tags.filter((tag) => WRITABLE_TAG.test(tag))
}
