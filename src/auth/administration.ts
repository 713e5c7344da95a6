import { statement, type StatementRunner } from '../database/statement.ts'
import { emailTaken } from './users.ts'

// What those who run the service do with accounts, over what their owners can do. Times are text: a statement may come
// from another process (database/visit.ts).

export interface AccountSummary {
  readonly id: number
  readonly email: string
  /** RFC 3339, UTC. */
  readonly createdAt: string
  readonly landingPages: number
  readonly assets: number
  /** That have not ended. */
  readonly sessions: number
}

/** An account, and how many of its sessions were ended. */
export interface SignedOut {
  readonly id: number
  readonly email: string
  readonly sessionsEnded: number
}

const ACCOUNTS_AT_ONCE = 500

const LIST = statement<AccountSummary>(`
  SELECT u.id, u.email, to_char(u.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt",
    (SELECT count(*)::integer FROM landing_pages p WHERE p.user_id = u.id) AS "landingPages",
    (SELECT count(*)::integer FROM assets a WHERE a.user_id = u.id) AS assets,
    (SELECT count(*)::integer FROM sessions s WHERE s.user_id = u.id AND s.revoked_at IS NULL AND s.expires_at > now()) AS sessions
  FROM users u WHERE u.id > $1::integer ORDER BY u.id LIMIT $2::integer`)

const CREATE = statement<{ id: number }>('INSERT INTO users (email, password_hash) VALUES ($1, $2) RETURNING id')

const SET_PASSWORD = statement<{ id: number }>('UPDATE users SET password_hash = $2 WHERE email = $1 RETURNING id')

const SIGN_OUT = statement<SignedOut>(`
  WITH account AS (SELECT id, email FROM users WHERE email = $1), ended AS (
    UPDATE sessions s SET revoked_at = now() FROM account
    WHERE s.user_id = account.id AND s.revoked_at IS NULL AND s.expires_at > now()
    RETURNING s.id
  )
  SELECT id, email, (SELECT count(*)::integer FROM ended) AS "sessionsEnded" FROM account`)

/** All accounts in the order of their ids, a part at a time. */
export async function * listAccounts (database: StatementRunner): AsyncGenerator<AccountSummary[]> {
  for (let last = 0; ;) {
    const accounts = await database.run(LIST, [last, ACCOUNTS_AT_ONCE])
    if (accounts.length > 0) yield accounts
    if (accounts.length < ACCOUNTS_AT_ONCE) return
    last = accounts.at(-1)?.id as number
  }
}

/**
 * Creates an account that is not signed in anywhere.
 *
 * @param email that `checkSignUp` has passed
 * @returns its id
 * @throws {InvalidError} somebody else has signed up with that address in the meantime
 */
export async function createUser (database: StatementRunner, email: string, passwordHash: string): Promise<number> {
  const rows = await database.run(CREATE, [email, passwordHash]).catch((error: unknown) => { throw emailTaken(error) })
  return rows[0]?.id as number
}

/**
 * Gives an account another password and ends all its sessions. Undefined when there is no account of that address. Two
 * statements: the second one sees the sessions that were begun with the old password until the first was done.
 *
 * @param email normalised
 */
export async function setPassword (database: StatementRunner, email: string, passwordHash: string): Promise<SignedOut | undefined> {
  const changed = await database.run(SET_PASSWORD, [email, passwordHash])
  return changed.length === 0 ? undefined : await signOutEverywhere(database, email)
}

/** Ends all sessions of an account. Undefined when there is none of that address. */
export async function signOutEverywhere (database: StatementRunner, email: string): Promise<SignedOut | undefined> {
  const rows = await database.run(SIGN_OUT, [email])
  return rows[0]
}
