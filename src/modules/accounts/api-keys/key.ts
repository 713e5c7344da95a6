import { crc32 } from 'node:zlib'
import { formatBase62, randomBase62 } from '../../../infra/system/identifiers.ts'

/** What an API key may give access to. */
export type Resource = 'pages' | 'assets'

/** The scopes of API keys. */
export const SCOPES = ['pages:read', 'drafts:write', 'pages:write', 'assets:read', 'assets:write'] as const
export type Scope = typeof SCOPES[number]

/** Whether a key with some scopes may do what needs a scope. Who may write pages may also write drafts. */
export const hasScope = (scopes: readonly string[], needed: Scope): boolean =>
  scopes.includes(needed) || (needed === 'drafts:write' && scopes.includes('pages:write'))

// The text of an API key: `lf_`, 40 random characters and a checksum of 6, all in base62. Secret scanners
// recognise a key by its prefix and by its checksum.

const PREFIX = 'lf_'
const RANDOM_LENGTH = 40
const CHECKSUM_LENGTH = 6
const FORM = /^lf_([0-9A-Za-z]{40})([0-9A-Za-z]{6})$/

/** CRC-32 (ISO 3309) of the random characters. */
const checksumOf = (random: string): string => formatBase62(crc32(random)).padStart(CHECKSUM_LENGTH, '0')

/** Creates an API key with 238 random bits. */
export function createApiKey (): string {
  const random = randomBase62(RANDOM_LENGTH)
  return PREFIX + random + checksumOf(random)
}

/** Whether a bearer token is meant to be an API key. Access tokens begin with `ey`. */
export const looksLikeApiKey = (token: string): boolean => token.startsWith(PREFIX)

/** Whether a text has the form of an API key, and the right checksum. */
export function isApiKey (text: string): boolean {
  const [, random = '', checksum] = FORM.exec(text) ?? []
  return checksum === checksumOf(random)
}
