import { dictionary } from '@zxcvbn-ts/language-common'
import { compose } from '../mail/email-addresses.ts'

export const PASSWORD_MIN = 8
export const PASSWORD_MAX = 256

const COMMON_PASSWORDS =
  new Set(dictionary['passwords-common'].filter((password) => password.length >= PASSWORD_MIN))

/** The form in which passwords are measured, hashed and compared. */
export const normalizePassword = compose

/** Returns the problems of a normalised password, except with its length. */
export function checkPassword (password: string): string[] {
  const problems: string[] = []
  // Unpaired surrogates are encoded as U+FFFD, so different passwords would have the same hash.
  if (!password.isWellFormed()) problems.push('contains characters that are not valid')
  if (COMMON_PASSWORDS.has(password.toLowerCase())) problems.push('is too common')
  return problems
}
