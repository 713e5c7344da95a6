import { domainToASCII, domainToUnicode } from 'node:url'
import isEmail from 'validator/lib/isEmail.js'

// The rules for e-mail addresses.

export const EMAIL_MAX = 254
/** RFC 5321, 4.5.3.1.1. */
const LOCAL_PART_MAX_BYTES = 64
/** What has a meaning in the syntax of SMTP or of a mail's header, such as an encoded word (`=?…?=`). */
const SYNTAX = /["<>()[\]\\,;:]|=\?.*\?=/
/** IDNA ignores the invisible ones, and replaces the ideographic full stop by a dot. */
const IGNORED_OR_DOT = /[\p{Default_Ignorable_Code_Point}\u3002]/u
/** Older and newer versions of IDNA turn these letters into different domains. */
const DEVIATIONS = /[ßς]/
/** Characters beyond the BMP, except plane 14, whose tags and variation selectors are invisible. */
const VISIBLE_BEYOND_BMP = /[\u{10000}-\u{DFFFF}]/gu

/**
 * The longest text that is normalised, in UTF-16 code units. It fits 256 characters with combining marks.
 * The time of `normalize` grows with the square of the number of marks, to 0.2 s for the longest request.
 */
const MAX_NORMALIZED = 2048

/** Normalises to NFC. Text that is too long to be valid is returned unchanged. */
export const compose = (text: string): string => text.length > MAX_NORMALIZED ? text : text.normalize('NFC')

/** The form in which e-mail addresses are stored and compared. */
export const normalizeEmail = (email: string): string => compose(compose(email.trim()).toLowerCase())

/** Returns the problems of a new account's normalised e-mail address, except with its length. */
export const checkEmail = (email: string): string[] =>
  isPlainEmailAddress(email, [...email].length > EMAIL_MAX) ? [] : ['is invalid']

/**
 * Whether a normalised e-mail address has a valid form.
 *
 * @param ofAnyLength skips the checks of the lengths of the address and its parts
 */
export function isEmailAddress (email: string, ofAnyLength = false): boolean {
  // Invisible characters would make two addresses look the same.
  if (!email.isWellFormed() || /[\p{C}\p{Z}]/u.test(email)) return false
  const at = Math.max(email.lastIndexOf('@'), 0)
  const localPart = email.slice(0, at)
  if (!ofAnyLength && Buffer.byteLength(localPart) > LOCAL_PART_MAX_BYTES) return false
  // validator accepts letters of all scripts in a local part, but only from the BMP.
  return isEmail.default(localPart.replace(VISIBLE_BEYOND_BMP, 'x') + email.slice(at), {
    allow_utf8_local_part: true,
    ignore_max_length: ofAnyLength
  })
}

/**
 * Whether a normalised e-mail address is one to which mail can be sent safely: no program on the way can read
 * it as another address. Accounts of earlier releases may have other addresses.
 *
 * @param ofAnyLength skips the checks of the lengths of the address and its parts
 */
export function isPlainEmailAddress (email: string, ofAnyLength = false): boolean {
  if (!isEmailAddress(email, ofAnyLength) || SYNTAX.test(email)) return false
  if (email.length > MAX_NORMALIZED) return true // too long to be used, and for the checks below
  const domain = email.slice(email.lastIndexOf('@') + 1)
  return email.normalize('NFKC') === email && !IGNORED_OR_DOT.test(email) && !DEVIATIONS.test(domain) &&
    (domainToASCII(domain) === domain || domainToUnicode(domain) === domain)
}
