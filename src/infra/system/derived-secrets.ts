import { createHmac, hkdfSync } from 'node:crypto'

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
