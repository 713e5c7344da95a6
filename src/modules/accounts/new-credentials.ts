import type { Database } from '../../infra/postgres/database.ts'
import { InvalidError } from '../../errors.ts'
import { problemsOf } from '../../http/validation.ts'
import { isPlainEmailAddress, normalizeEmail } from './mail/email-addresses.ts'
import { NewPassword, SignUpBody } from './schemas.ts'
import { EMAIL_TAKEN, findUser } from './user-repository.ts'

// The rules for new accounts and passwords that a schema can't express: those that compare two fields or need
// the database.

export interface NewAccount {
  readonly email: string
  readonly password: string
}

/**
 * Checks a new account from the command line.
 *
 * @throws {InvalidError} with a sentence for each broken rule
 */
export async function checkNewAccount (database: Database, account: NewAccount): Promise<NewAccount> {
  const body = { user: { ...account, password_confirmation: account.password } }
  return await checkSignUp(database, body, problemsOf(SignUpBody, body))
}

/**
 * Checks the body of a sign-up beyond its schema.
 *
 * @param body the body, normalised by the schema; it may be invalid
 * @param schemaProblems a sentence for each broken rule of the schema
 * @throws {InvalidError} with these sentences and one for each other broken rule
 */
export async function checkSignUp (
  database: Database,
  body: unknown,
  schemaProblems: readonly string[]
): Promise<NewAccount> {
  const user = fieldsOf(fieldsOf(body).user)
  const { email, password } = user
  const problems = [...schemaProblems]
  if (isString(email) && isPlainEmailAddress(email) && await findUser(database, email) !== undefined) {
    problems.push(EMAIL_TAKEN)
  }
  problems.push(...checkPasswordFields(email, user))
  if (problems.length > 0) throw new InvalidError(problems)
  return { email, password } as NewAccount
}

/**
 * Checks the new password of an existing account.
 *
 * @param email the normalised address of the account
 * @returns the normalised password
 * @throws {InvalidError} with a sentence for each broken rule
 */
export function checkNewPassword (email: string, given: string): string {
  const value = { password: given }
  const problems = [...problemsOf(NewPassword, value), ...checkPasswordFields(email, value)]
  if (problems.length > 0) throw new InvalidError(problems)
  return value.password
}

/**
 * Compares the new password in a body with its confirmation and the email. Skips what is missing or no
 * string, because the schema reports it.
 *
 * @param email the normalised address of the account
 * @param body the body, normalised by the schema; it may be invalid
 * @returns a sentence for each broken rule
 */
export function checkPasswordFields (email: unknown, body: unknown): string[] {
  const { password, password_confirmation: confirmation } = fieldsOf(body)
  const problems: string[] = []
  if (isString(password) && email !== '' && normalizeEmail(password) === email) {
    problems.push("Password can't be the same as the email")
  }
  if (isString(confirmation) && confirmation !== (isString(password) ? password : '')) {
    problems.push("Password confirmation doesn't match Password")
  }
  return problems
}

type Fields = Readonly<Record<string, unknown>>

/** Returns the fields of a body that may have any shape. Other values than objects have none of them. */
export const fieldsOf = (body: unknown): Fields => (body ?? {}) as Fields

export function hasUser (body: unknown): boolean {
  const { user } = fieldsOf(body)
  return typeof user === 'object' && user !== null && !Array.isArray(user)
}

const isString = (value: unknown): value is string => typeof value === 'string'
