import { createHash, randomBytes } from 'node:crypto'

/** Returns a token of 256 random bits. */
export const createToken = (): string => randomBytes(32).toString('base64url')

/** A plain hash is enough, because a random token can't be guessed. The token itself is never stored. */
export const hashToken = (token: string): Uint8Array =>
  new Uint8Array(createHash('sha256').update(token).digest())
