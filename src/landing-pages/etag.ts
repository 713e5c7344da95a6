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

/** One element of a list of tags, which may be empty (RFC 9110, 5.6.1), up to its comma. */
const ELEMENT = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(,|$)/y

/**
 * The versions that an If-Match header (strong comparison: weak tags never match) or an If-None-Match header (weak
 * comparison) names. Tags that this service can't have made are left out, so that a list of none matches nothing; so
 * does a header that is no list of tags.
 */
export function parseTags (header: string, comparison: 'strong' | 'weak'): TagList {
  if (header.trim() === '*') return '*'
  const hashes: string[] = []
  ELEMENT.lastIndex = 0
  while (true) {
    const element = ELEMENT.exec(header)
    if (element === null) return []
    const [, weak, tag, comma] = element
    const counts = tag !== undefined && (weak === undefined || comparison === 'weak')
    if (counts && SUFFIXES.includes(tag.slice(HASH_LENGTH))) hashes.push(tag.slice(0, HASH_LENGTH))
    if (comma === '') return hashes
  }
}

/** Whether a conditional header names the version with this hash. */
export const namesVersion = (tags: TagList, hash: string): boolean => tags === '*' || tags.includes(hash)

/** Of If-None-Match, in characters, about eighty of our tags. Reading thousands costs more than sending the document. */
const MAX_LIST_LENGTH = 4096

/** Whether If-None-Match lets a document with this hash stay unsent. */
export function isUnmodified (header: string | undefined, hash: string): boolean {
  if (header === undefined) return false
  // What nearly every client sends: one tag, as it was handed out.
  if (header.startsWith(hash, 1) && header[0] === '"' && ENDS.has(header.slice(1 + HASH_LENGTH))) return true
  return header.length <= MAX_LIST_LENGTH && namesVersion(parseTags(header, 'weak'), hash)
}
