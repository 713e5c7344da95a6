import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { DELETED_EMAIL, hasSessionSql, IS_BEING_DELETED, noticeSql,
  type PasswordProof } from '../accounts/index.ts'

// The deletion of an account begins with one statement, which takes away its e-mail address, password,
// sessions and keys. The rows that take longer follow in batches (docs/adr/0023-deleting-accounts.md).

/** Returns the statement that begins a deletion. Its first parameter is whether a mail tells the user. */
const beginSql = (condition: string) =>
  statement<{ id: number }>(`
  WITH account AS (
    SELECT id, email FROM users WHERE ${condition} AND NOT ${IS_BEING_DELETED} FOR UPDATE
  ), begun AS (
    INSERT INTO account_deletions (user_id) SELECT id FROM account
  ), renamed AS (
    UPDATE users SET email = ${DELETED_EMAIL}, password_hash = '' FROM account WHERE users.id = account.id
  ), ended AS (
    UPDATE sessions SET revoked_at = now() FROM account WHERE user_id = account.id AND revoked_at IS NULL
  ), keys AS (
    DELETE FROM api_keys USING account WHERE user_id = account.id
  ), links AS (
    DELETE FROM mail_links USING account WHERE user_id = account.id
  ), waiting AS (
    DELETE FROM mails USING account WHERE user_id = account.id
  ), ${noticeSql('account_deleted', 'account', '$1::boolean', { userId: 'NULL' })}
  SELECT id FROM account`)

const BEGIN_OWN = beginSql(`id = $2::integer AND password_hash = $3 AND ${hasSessionSql('$4')}`)
const BEGIN_BY_EMAIL = beginSql('email = $2')

const DELETIONS_PER_STATEMENT = 100
const FIND_BEGUN = statement<{ userId: number }>(`
  SELECT user_id AS "userId" FROM account_deletions
  WHERE begun_at <= now() - make_interval(secs => $1::double precision) AND user_id > $2::integer
  ORDER BY user_id LIMIT ${DELETIONS_PER_STATEMENT}`)

/** The most refresh tokens that one statement deletes. */
const TOKENS_PER_STATEMENT = 1000
/** They go before the user, because deleting the user would cascade to any number of them. */
const DELETE_TOKENS = statement<object>(`
  WITH batch AS (
    SELECT token_hash FROM refresh_tokens JOIN sessions ON sessions.id = session_id
    WHERE user_id = $1::integer LIMIT ${TOKENS_PER_STATEMENT} FOR UPDATE OF refresh_tokens
  )
  DELETE FROM refresh_tokens USING batch WHERE refresh_tokens.token_hash = batch.token_hash RETURNING 1 AS deleted`)

const DELETE_USER = statement<{ id: number }>(`
  DELETE FROM users WHERE id = $1::integer AND ${IS_BEING_DELETED} RETURNING id`)

/**
 * Begins the deletion of the account of a user who has given the password. From then on the account can't be
 * used, and its e-mail address is free.
 *
 * @param own the proof of the password
 * @param hasMail whether a mail tells the user
 * @returns false when the password or the session is no longer valid, or the deletion has begun already
 */
export async function beginOwnDeletion (
  database: StatementRunner,
  { userId, passwordHash, sessionId }: PasswordProof,
  hasMail: boolean
): Promise<boolean> {
  return (await database.run(BEGIN_OWN, [hasMail, userId, passwordHash, sessionId])).length > 0
}

/**
 * Begins the deletion of an account like beginOwnDeletion(), for the command line.
 *
 * @param email normalised
 * @returns its id; undefined when there is no such account
 */
export async function beginDeletion (
  database: StatementRunner,
  email: string,
  hasMail: boolean
): Promise<number | undefined> {
  return (await database.run(BEGIN_BY_EMAIL, [hasMail, email]))[0]?.id
}

/** Finds all users whose deletion began at least `seconds` ago and isn't finished. */
export async function findBegunDeletions (database: StatementRunner, seconds: number): Promise<number[]> {
  const users: number[] = []
  for (;;) {
    const rows = await database.run(FIND_BEGUN, [seconds, users.at(-1) ?? 0])
    users.push(...rows.map(({ userId }) => userId))
    if (rows.length < DELETIONS_PER_STATEMENT) return users
  }
}

/**
 * Deletes the row of a user whose deletion has begun, with the sessions. Its pages and assets must be gone.
 *
 * @returns false when the row was gone already
 */
export async function deleteUser (database: StatementRunner, userId: number): Promise<boolean> {
  while ((await database.run(DELETE_TOKENS, [userId])).length === TOKENS_PER_STATEMENT);
  return (await database.run(DELETE_USER, [userId])).length > 0
}
