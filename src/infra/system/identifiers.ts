import { randomBytes } from 'node:crypto'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PUBLIC_ID_LENGTH = 22

/** A UUID in its usual form, in upper or lower case. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export const isUuid = (value: unknown): value is string => typeof value === 'string' && UUID.test(value)

/** Whether a string has the form of a public id. */
export const isPublicId = (value: string): boolean => /^[0-9A-Za-z]{22}$/.test(value)

/**
 * Returns an identifier that can't be guessed: 22 characters of base62 with 130.9 random bits. Bytes above
 * the largest multiple of 62 are discarded, so that all characters are equally likely.
 */
export function randomPublicId (): string {
  let id = ''
  while (id.length < PUBLIC_ID_LENGTH) {
    for (const byte of randomBytes(32)) {
      if (byte < 248 && id.length < PUBLIC_ID_LENGTH) id += BASE62[byte % 62]
    }
  }
  return id
}
