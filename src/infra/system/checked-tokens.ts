import { crc32 } from 'node:zlib'
import { formatBase62, randomBase62 } from './identifiers.ts'

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
