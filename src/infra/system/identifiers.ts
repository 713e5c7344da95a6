import { createHash, randomBytes, createHmac, hkdfSync } from 'node:crypto'
import { crc32 } from 'node:zlib'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PUBLIC_ID_LENGTH = 22

/** A UUID in its usual form, in upper or lower case. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export const isUuid = (value: unknown): value is string => typeof value === 'string' && UUID.test(value)

export const isPublicId = (value: string): boolean => /^[0-9A-Za-z]{22}$/.test(value)

/** The key of a page. Keys are parts of URLs and of names of files. */
export const PAGE_KEY = /^[a-z0-9][a-z0-9._-]{0,62}$/
export const PAGE_KEY_RULE =
  'must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit'

/**
 * Returns random characters of base62, each with 5.95 bits. Bytes above the largest multiple of 62 are
 * discarded, so that all characters are equally likely.
 */
export function randomBase62 (length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(64)) {
      if (byte < 248 && text.length < length) text += BASE62[byte % 62]
    }
  }
  return text
}

/** Returns an identifier that can't be guessed: 22 characters of base62 with 130.9 random bits. */
export const randomPublicId = (): string => randomBase62(PUBLIC_ID_LENGTH)

/** Formats a whole number from 0 in base62. */
export function formatBase62 (number: number): string {
  const last = BASE62.charAt(number % 62)
  return number < 62 ? last : formatBase62(Math.floor(number / 62)) + last
}

/** Returns a token of 256 random bits. */
export const createToken = (): string => randomBytes(32).toString('base64url')

/** A plain hash is enough, because a random token can't be guessed. The token itself is never stored. */
export const hashToken = (token: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(createHash('sha256').update(token).digest())

let lastMs = 0
let sequence = 0

/**
 * Returns a UUID of version 7 for a new row. UUIDs of one process sort in order of creation. Within a
 * millisecond, a counter with a random start ensures this (RFC 9562, section 6.2, method 1).
 */
export function uuidv7 (): string {
  const bytes = randomBytes(16)
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    sequence = bytes.readUInt16BE(6) & 0x7ff
  } else if (++sequence > 0xfff) {
    // The counter is full, or the clock was set back: use the next millisecond.
    lastMs++
    sequence = 0
  }
  bytes.writeUIntBE(lastMs, 0, 6)
  bytes.writeUInt16BE(0x7000 | sequence, 6)
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
  return formatUuid(bytes)
}

const formatUuid = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')

/** Returns a UUID that sorts before all UUIDv7 made at `time`, in milliseconds since 1970, or later. */
export function firstUuidAt (time: number): string {
  const bytes = Buffer.alloc(16)
  bytes.writeUIntBE(time, 0, 6)
  return formatUuid(bytes)
}

// Tokens that secret scanners recognise: a prefix, 40 random characters and a checksum of 6, all in base62.

const RANDOM_LENGTH = 40
const CHECKSUM_LENGTH = 6

/** CRC-32 (ISO 3309) of the random characters. */
const checksumOf = (random: string): string => formatBase62(crc32(random)).padStart(CHECKSUM_LENGTH, '0')

/** Creates a token with 238 random bits. */
export function createCheckedToken (prefix: string): string {
  const random = randomBase62(RANDOM_LENGTH)
  return prefix + random + checksumOf(random)
}

/** Whether a text has the form of a token with this prefix, and the right checksum. */
export function isCheckedToken (prefix: string, text: string): boolean {
  if (!text.startsWith(prefix)) return false
  const [, random = '', checksum] = /^([0-9A-Za-z]{40})([0-9A-Za-z]{6})$/.exec(text.slice(prefix.length)) ??
    []
  return checksum === checksumOf(random)
}

// Secrets that are shown once and needed again are derived from SECRETS_KEY, never stored: neither a backup
// nor a replica of the database contains them.

/** Returns the key that is used if SECRETS_KEY isn't set: 43 characters of base64url. */
export const defaultSecretsKey = (jwtSecret: string): string =>
  Buffer.from(hkdfSync('sha256', jwtSecret, '', 'landfall secrets key', 32)).toString('base64url')

/**
 * Derives a secret of 32 bytes.
 *
 * @param purpose what the secret is for, such as `webhook`
 * @param id the row that it belongs to
 * @param generation a number that changes when the secret is replaced
 */
export const deriveSecret = (key: string, purpose: string, id: string, generation: number): Buffer =>
  createHmac('sha256', key).update(`${purpose}|${id}|${generation}`).digest()
