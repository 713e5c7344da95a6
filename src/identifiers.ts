import { randomBytes } from 'node:crypto'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PUBLIC_ID_LENGTH = 22

/** A UUID in the usual writing, upper or lower case. Anything else can't be an id of the service. */
export const isUuid = (value: unknown): value is string =>
  typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value)

/** Whether a string has the form of a public id. */
export const isPublicId = (value: string): boolean => /^[0-9A-Za-z]{22}$/.test(value)

/**
 * An identifier that can't be guessed: 22 characters of base62, 130.9 bits from the system's CSPRNG.
 * Bytes past the largest multiple of 62 are thrown away, so that every character is equally likely.
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
