import type { Database } from '../../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../../infra/postgres/statement.ts'
import { uuidv7 } from '../../../infra/postgres/uuid.ts'
import { linkMailSql } from '../mail/mail-sql.ts'
import { ALIVE, throwEmailTaken, type User } from '../user-repository.ts'

// FIND is hot: it runs for every authenticated request, and prepared it is five to seven times as fast as
// through Prisma. The others must be single conditional statements (docs/adr/0005-sessions-in-postgresql.md).

/** Two tabs may send the same refresh token almost at once. A later use is a replay (RFC 9700, 4.14.2). */
const REPLAY_TOLERANCE_SECONDS = 10

export interface Session {
  readonly id: string
  readonly userId: number
  readonly email: string
  readonly emailConfirmedAt: Date | null
}

/** Where a request comes from. */
export interface Client {
  /** The start of its User-Agent; null without one. */
  readonly userAgent: string | null
  readonly address: string
}

export interface SessionIds {
  readonly sessionId: string
  readonly userId: number
}

/** An account and the number of its sessions that were ended. */
export interface EndedSessions {
  readonly id: number
  readonly email: string
  readonly sessionsEnded: number
}

export interface Lifetimes {
  readonly refreshTokenSeconds: number
  readonly sessionSeconds: number
}

type Hash = Uint8Array

/** Inserts a session of `account` and its first refresh token, which never outlives the session. */
const NEW_SESSION = `
  session AS (
    INSERT INTO sessions (id, user_id, expires_at, user_agent, address)
    SELECT $1::uuid, id, now() + make_interval(secs => $2::double precision), $5, $6 FROM account
    RETURNING id, user_id, expires_at
  ), token AS (
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT $3, id, LEAST(expires_at, now() + make_interval(secs => $4::double precision)) FROM session
  )
  SELECT id AS "sessionId", user_id AS "userId" FROM session`

/** FOR SHARE waits for a concurrent password change, after which the old password starts no session. */
const START = statement<
  SessionIds
>(`WITH account AS (SELECT id FROM users WHERE id = $7::integer AND password_hash = $8 FOR SHARE), ${NEW_SESSION}`)
const CREATE_ACCOUNT = statement<
  SessionIds
>(`WITH account AS (
    INSERT INTO users (email, password_hash, email_confirmed_at) VALUES ($7, $8, NULL) RETURNING id, email
  ), ${linkMailSql('email_confirmation', 'account', '$9::boolean')}, ${NEW_SESSION}`)

/** A refresh token ($1) that was neither exchanged nor has expired. */
const UNSPENT = 't.token_hash = $1 AND t.rotated_at IS NULL AND t.expires_at > now()'

const FIND = statement<Session & { isUseRecorded: boolean }>(`
  SELECT s.id, s.user_id AS "userId", u.email, u.email_confirmed_at AS "emailConfirmedAt",
    s.last_used_at IS NOT NULL AND s.last_used_at >= date_trunc('minute', now()) AS "isUseRecorded"
  FROM sessions s JOIN users u ON u.id = s.user_id
  WHERE s.id = $1::uuid AND s.user_id = $2::integer AND ${ALIVE}`)

/** Never waits for the row: many requests may begin with a minute, and one of them is enough. */
const RECORD_USE = statement<object>(`
  UPDATE sessions SET last_used_at = date_trunc('minute', now()), user_agent = $2, address = $3
  WHERE id = (SELECT id FROM sessions WHERE id = $1::uuid FOR NO KEY UPDATE SKIP LOCKED)`)

const ROTATE = statement<SessionIds>(`
  WITH spent AS (
    UPDATE refresh_tokens t SET rotated_at = now()
    FROM sessions s
    WHERE ${UNSPENT}
      AND s.id = t.session_id AND ${ALIVE}
    RETURNING s.id, s.user_id, s.expires_at
  ), issued AS (
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT $2, id, LEAST(expires_at, now() + make_interval(secs => $3::double precision))
    FROM spent
  ), used AS (
    UPDATE sessions SET last_used_at = date_trunc('minute', now()), user_agent = $4, address = $5
    FROM spent WHERE sessions.id = spent.id
  )
  SELECT id AS "sessionId", user_id AS "userId" FROM spent`)

const REVOKE_REPLAYED = statement<SessionIds>(`
  UPDATE sessions s SET revoked_at = now()
  FROM refresh_tokens t
  WHERE t.token_hash = $1 AND s.id = t.session_id AND s.revoked_at IS NULL
    AND t.rotated_at < now() - make_interval(secs => ${REPLAY_TOLERANCE_SECONDS})
  RETURNING s.id AS "sessionId", s.user_id AS "userId"`)

const SIGN_OUT = statement<{ id: string }>(`
  WITH presented AS (
    SELECT s.id FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id
    WHERE ${UNSPENT}
      AND s.user_id = $2::integer AND ${ALIVE}
  )
  UPDATE sessions SET revoked_at = now()
  WHERE revoked_at IS NULL AND EXISTS (SELECT FROM presented)
    AND (id = $3::uuid OR id IN (SELECT id FROM presented))
  RETURNING id`)

const END_BY_TOKEN = statement<SessionIds>(`
  UPDATE sessions s SET revoked_at = now()
  FROM refresh_tokens t
  WHERE ${UNSPENT}
    AND s.id = t.session_id AND ${ALIVE}
  RETURNING s.id AS "sessionId", s.user_id AS "userId"`)

const FIND_USER = statement<Omit<User, 'passwordHash'>>(`
  SELECT u.id, u.email, u.email_confirmed_at AS "emailConfirmedAt"
  FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id JOIN users u ON u.id = s.user_id
  WHERE t.token_hash = $1 AND ${ALIVE}`)

const FIND_SPENT = statement<object>(`
  SELECT FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id
  WHERE t.token_hash = $1 AND t.rotated_at IS NOT NULL AND ${ALIVE}`)

const SIGN_OUT_EVERYWHERE = statement<EndedSessions>(`
  WITH account AS (SELECT id, email FROM users WHERE email = $1), ended AS (
    UPDATE sessions s SET revoked_at = now() FROM account
    WHERE s.user_id = account.id AND ${ALIVE}
    RETURNING s.id
  )
  SELECT id, email, (SELECT count(*)::integer FROM ended) AS "sessionsEnded" FROM account`)

/**
 * Starts a session.
 *
 * @returns undefined when the account is gone or its password has changed since the check
 */
export async function startSession (
  database: Database,
  { id, passwordHash }: User,
  tokenHash: Hash,
  { refreshTokenSeconds, sessionSeconds }: Lifetimes,
  { userAgent, address }: Client
): Promise<SessionIds | undefined> {
  const rows = await database.run(START, [uuidv7(), sessionSeconds, tokenHash, refreshTokenSeconds, userAgent,
    address, id, passwordHash])
  return rows[0]
}

/**
 * Creates an account with its first session.
 *
 * @param hasMail whether the service sends mail
 * @throws {InvalidError} when the e-mail address is taken
 */
export async function createAccount (
  database: Database,
  { email, passwordHash, hasMail }: Pick<User, 'email' | 'passwordHash'> & { readonly hasMail: boolean },
  tokenHash: Hash,
  { refreshTokenSeconds, sessionSeconds }: Lifetimes,
  { userAgent, address }: Client
): Promise<SessionIds> {
  const rows = await database.run(CREATE_ACCOUNT, [uuidv7(), sessionSeconds, tokenHash, refreshTokenSeconds,
    userAgent, address, email, passwordHash, hasMail]).catch(throwEmailTaken)
  return rows[0] as SessionIds
}

/**
 * Finds a session by its id, and notes its first use of each minute: the minute, and where it comes from.
 *
 * @returns undefined when it has ended or its user is gone
 */
export async function useSession (
  database: Database,
  { sessionId, userId }: SessionIds,
  { userAgent, address }: Client
): Promise<Session | undefined> {
  const rows = await database.run(FIND, [sessionId, userId])
  const [session] = rows
  if (session?.isUseRecorded === false) await database.run(RECORD_USE, [sessionId, userAgent, address])
  return session
}

/**
 * Exchanges a refresh token for the next one.
 *
 * @returns undefined when the token is unknown, expired or already used, also by a concurrent call
 */
export async function rotateToken (
  database: Database,
  spentHash: Hash,
  nextHash: Hash,
  { refreshTokenSeconds }: Lifetimes,
  { userAgent, address }: Client
): Promise<SessionIds | undefined> {
  const rows = await database.run(ROTATE, [spentHash, nextHash, refreshTokenSeconds, userAgent, address])
  return rows[0]
}

/**
 * Ends the session of a refresh token that was rotated more than 10 seconds ago.
 *
 * @returns the session; undefined when none was ended
 */
export async function revokeReplayed (
  database: Database,
  tokenHash: Hash
): Promise<SessionIds | undefined> {
  const rows = await database.run(REVOKE_REPLAYED, [tokenHash])
  return rows[0]
}

/**
 * Ends a session and the session of a refresh token, which must be usable and belong to the same user.
 *
 * @returns false when the refresh token is refused; nothing is revoked then
 */
export async function revokeSessions (
  database: Database,
  { id, userId }: Session,
  tokenHash: Hash
): Promise<boolean> {
  const rows = await database.run(SIGN_OUT, [tokenHash, userId, id])
  return rows.length > 0
}

/**
 * Ends the session of a refresh token.
 *
 * @returns undefined when the token is unknown, expired or already used; nothing is revoked then
 */
export async function endSessionOfToken (
  database: Database,
  tokenHash: Hash
): Promise<SessionIds | undefined> {
  const rows = await database.run(END_BY_TOKEN, [tokenHash])
  return rows[0]
}

/** Finds the user of a refresh token, also of a used one. @returns undefined when its session has ended */
export async function findUserOfToken (
  database: Database,
  tokenHash: Hash
): Promise<Omit<User, 'passwordHash'> | undefined> {
  const rows = await database.run(FIND_USER, [tokenHash])
  return rows[0]
}

/** Whether a refresh token has been exchanged for another one, in a session that has not ended. */
export async function hasSuccessor (database: Database, tokenHash: Hash): Promise<boolean> {
  return (await database.run(FIND_SPENT, [tokenHash])).length > 0
}

/**
 * Ends all sessions of an account.
 *
 * @param email normalised
 * @returns undefined when there is no such account
 */
export async function signOutEverywhere (
  database: StatementRunner,
  email: string
): Promise<EndedSessions | undefined> {
  const rows = await database.run(SIGN_OUT_EVERYWHERE, [email])
  return rows[0]
}
