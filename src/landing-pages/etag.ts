// Entity tags of documents (RFC 9110, 8.8.3). One hash per version of a document; a compressed representation has the
// tag of its own that strong tags require, and all of them name the same version.

export type Encoding = 'identity' | 'br' | 'gzip'

const SUFFIX: Readonly<Record<Encoding, string>> = { identity: '', br: '-br', gzip: '-gzip' }
const SUFFIXES = Object.values(SUFFIX)
const ENDS = new Set(SUFFIXES.map((suffix) => `${suffix}"`))
const HASH_LENGTH = 43 // SHA-256 in base64url

/** The strong tag of a document in an encoding. */
export const entityTag = (hash: string, encoding: Encoding = 'identity'): string => `"${hash}${SUFFIX[encoding]}"`

/** What a conditional header says: `*`, or the hashes of the tags that it lists. */
export type TagList = '*' | readonly string[]

/**
 * The versions that an If-Match header (strong comparison: weak tags never match) or an If-None-Match header (weak
 * comparison) names. Tags that this service can't have made are left out, so that a list of none matches nothing.
 */
export function parseTags (header: string, comparison: 'strong' | 'weak'): TagList {
  if (header.trim() === '*') return '*'
  const hashes: string[] = []
  for (const [, weak, tag = ''] of header.matchAll(/(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"/g)) {
    if (weak !== undefined && comparison === 'strong') continue
    if (SUFFIXES.includes(tag.slice(HASH_LENGTH))) hashes.push(tag.slice(0, HASH_LENGTH))
  }
  return hashes
}

/** Whether a conditional header names the version with this hash. */
export const namesVersion = (tags: TagList, hash: string): boolean => tags === '*' || tags.includes(hash)

/** Whether If-None-Match lets a document with this hash stay unsent. */
export function isUnmodified (header: string | undefined, hash: string): boolean {
  if (header === undefined) return false
  // What nearly every client sends: one tag, as it was handed out.
  if (header.startsWith(hash, 1) && header[0] === '"' && ENDS.has(header.slice(1 + HASH_LENGTH))) return true
  return namesVersion(parseTags(header, 'weak'), hash)
}
