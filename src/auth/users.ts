import validator from 'validator'
import { statement, type StatementRunner } from '../database/statement.ts'
import { InvalidError } from '../errors.ts'
import { compose, isCommonPassword, normalizePassword } from './passwords.ts'

const EMAIL_MAX = 254
/** RFC 5321, 4.5.3.1.1. */
const LOCAL_PART_MAX_BYTES = 64
/** Without the last assigned plane: its tags and variation selectors are not seen. */
const VISIBLE_BEYOND_BMP = /[\u{10000}-\u{DFFFF}]/gu
const PASSWORD_MIN = 8
const PASSWORD_MAX = 256
const EMAIL_TAKEN = 'Email has already been taken'

export interface SignUp {
  readonly email: string
  readonly password: string
}

export interface User {
  readonly id: number
  readonly email: string
  readonly passwordHash: string
}

const FIND = statement<User>('SELECT id, email, password_hash AS "passwordHash" FROM users WHERE email = $1')

/** SQLSTATE of a value that has to be unique and isn't. */
const UNIQUE_VIOLATION = '23505'

/** The account of a normalised e-mail address. */
export async function findUser (database: StatementRunner, email: string): Promise<User | undefined> {
  const rows = await database.run(FIND, [email])
  return rows[0]
}

/** The form in which e-mail addresses are stored and compared. */
export const normalizeEmail = (email: string): string => compose(compose(email.trim()).toLowerCase())

/**
 * Whether a normalised e-mail address can be anybody's.
 *
 * @param ofAnyLength whether its length, and that of its parts, is left out of account
 */
export function isEmailAddress (email: string, ofAnyLength = false): boolean {
  // Characters that nobody sees would make two look like one.
  if (!email.isWellFormed() || /[\p{C}\p{Z}]/u.test(email)) return false
  const at = Math.max(email.lastIndexOf('@'), 0)
  const localPart = email.slice(0, at)
  if (!ofAnyLength && Buffer.byteLength(localPart) > LOCAL_PART_MAX_BYTES) return false
  // validator takes letters of every script there, but none beyond the BMP.
  return validator.isEmail(localPart.replace(VISIBLE_BEYOND_BMP, 'x') + email.slice(at), { allow_utf8_local_part: true, ignore_max_length: ofAnyLength })
}

/**
 * Checks what somebody signs up with.
 *
 * @param body the request's body, of any shape
 * @throws {InvalidError} with a sentence for every rule that is broken, a taken e-mail address included
 */
export async function checkSignUp (database: StatementRunner, body: unknown): Promise<SignUp> {
  const user = fieldsOf(fieldsOf(body).user)
  const problems: string[] = []
  const email = typeof user.email === 'string' ? normalizeEmail(user.email) : ''
  const password = typeof user.password === 'string' ? normalizePassword(user.password) : ''

  const emailProblems = checkEmail(user.email, email)
  if (emailProblems.length === 0 && await findUser(database, email) !== undefined) {
    emailProblems.push(EMAIL_TAKEN)
  }
  problems.push(...emailProblems, ...checkPassword(user.password, password, email), ...checkConfirmation(user.password_confirmation, password))
  if (problems.length > 0) throw new InvalidError(problems)
  return { email, password }
}

/**
 * Checks what is to be the password of an account from now on.
 *
 * @param email of the account, normalised
 * @returns the password in the form in which it is hashed
 * @throws {InvalidError} with a sentence for every rule that is broken
 */
export function checkNewPassword (email: string, given: string): string {
  const password = normalizePassword(given)
  const problems = checkPassword(given, password, email)
  if (problems.length > 0) throw new InvalidError(problems)
  return password
}

/** A statement failed because somebody else has signed up with that address in the meantime. */
export function emailTaken (error: unknown): unknown {
  return (error as { code?: unknown }).code === UNIQUE_VIOLATION ? new InvalidError([EMAIL_TAKEN]) : error
}

/** The members of an object, none of anything else. */
export const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : {}

function checkEmail (given: unknown, email: string): string[] {
  if (isMissing(given) || email === '') return [typeof given === 'string' || isMissing(given) ? "Email can't be blank" : 'Email must be a string']
  const isTooLong = characters(email) > EMAIL_MAX
  const problems: string[] = []
  if (isTooLong) problems.push(`Email is too long (maximum is ${EMAIL_MAX} characters)`)
  if (!isEmailAddress(email, isTooLong)) problems.push('Email is invalid')
  return problems
}

function checkPassword (given: unknown, password: string, email: string): string[] {
  if (isMissing(given) || given === '') return ["Password can't be blank"]
  if (typeof given !== 'string') return ['Password must be a string']
  const problems: string[] = []
  const length = characters(password)
  if (length < PASSWORD_MIN) problems.push(`Password is too short (minimum is ${PASSWORD_MIN} characters)`)
  if (length > PASSWORD_MAX) problems.push(`Password is too long (maximum is ${PASSWORD_MAX} characters)`)
  // Half a surrogate pair has no UTF-8: every such password would be hashed as the same bytes.
  if (!password.isWellFormed()) problems.push('Password contains characters that are not valid')
  if (email !== '' && normalizeEmail(password) === email) problems.push("Password can't be the same as the email")
  if (isCommonPassword(password)) problems.push('Password is too common')
  return problems
}

function checkConfirmation (given: unknown, password: string): string[] {
  if (isMissing(given)) return ["Password confirmation can't be blank"]
  if (typeof given !== 'string' || normalizePassword(given) !== password) return ["Password confirmation doesn't match Password"]
  return []
}

const isMissing = (value: unknown): boolean => value === undefined || value === null

const characters = (text: string): number => [...text].length
