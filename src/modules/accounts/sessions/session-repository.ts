import { InvalidError } from '../../../errors.ts'
import type { Page } from '../../../http/pagination.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { isUniqueViolation, statement } from '../../../infra/postgres/statement.ts'
import { uuidv7 } from '../../../infra/system/identifiers.ts'
import { linkMailSql } from '../mail/queue-repository.ts'
import { EMAIL_TAKEN, isAlive, type User } from '../user-repository.ts'

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

/** The session of a refresh token that was sent to exchange it. */
export interface Rotation extends SessionIds {
  /** Whether the token was used long ago, so that its session was revoked. */
  readonly isReplay: boolean
}

type Hash = Uint8Array<ArrayBuffer>

/** A session as it goes on: its next refresh token, how long both are valid, and where it is used. */
export interface NewSession extends Client {
  readonly tokenHash: Hash
  readonly refreshTokenSeconds: number
  readonly sessionSeconds: number
}

/** A condition on `sessions`: a session that has not ended. */
const ALIVE = 's.revoked_at IS NULL AND s.expires_at > now()'

/** Inserts a session of `account` and its first refresh token, which never outlives the session. */
const NEW_SESSION = `session AS (
    INSERT INTO sessions (id, user_id, expires_at, user_agent, address)
    SELECT :id::uuid, id, now() + make_interval(secs => :sessionSeconds::double precision),
      :userAgent, :address
    FROM account
    RETURNING id, user_id, expires_at
  ), token AS (
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT :tokenHash, id,
      LEAST(expires_at, now() + make_interval(secs => :refreshTokenSeconds::double precision))
    FROM session
  )
  SELECT id AS "sessionId", user_id AS "userId" FROM session`

// Hot: it runs at every sign-in. FOR SHARE waits for a concurrent password change, after which the old
// password starts no session.
const START = statement<SessionIds>(`
  WITH account AS (
    SELECT id FROM users WHERE id = :userId::integer AND password_hash = :passwordHash FOR SHARE
  ), ${NEW_SESSION}`)

// One statement creates account, mail and session, or nothing.
const CREATE_ACCOUNT = statement<SessionIds>(`
  WITH account AS (
    INSERT INTO users (email, password_hash, email_confirmed_at) VALUES (:email, :passwordHash, NULL)
    RETURNING id, email
  ), ${linkMailSql("'email_confirmation'", 'account', ':hasMail::boolean')}, ${NEW_SESSION}`)

// Hot: it runs for every request with an access token, and is five to seven times as fast as through Prisma.
const FIND = statement<Session & { isUseRecorded: boolean }>(`
  SELECT s.id, s.user_id AS "userId", u.email, u.email_confirmed_at AS "emailConfirmedAt",
    s.last_used_at IS NOT NULL AND s.last_used_at >= date_trunc('minute', now()) AS "isUseRecorded"
  FROM sessions s JOIN users u ON u.id = s.user_id
  WHERE s.id = :sessionId::uuid AND s.user_id = :userId::integer AND ${ALIVE}`)

// Hot. SKIP LOCKED never waits for the row: many requests may begin with a minute, and one of them is enough.
const RECORD_USE = statement<object>(`
  UPDATE sessions SET last_used_at = date_trunc('minute', now()), user_agent = :userAgent, address = :address
  WHERE id = (SELECT id FROM sessions WHERE id = :sessionId::uuid FOR NO KEY UPDATE SKIP LOCKED)`)

// Hot, and one statement decides which of two exchanges of a token wins, and which is a replay.
const ROTATE = statement<Rotation>(`
  WITH spent AS (
    UPDATE refresh_tokens t SET rotated_at = now()
    FROM sessions s
    WHERE t.token_hash = :tokenHash AND t.rotated_at IS NULL AND t.expires_at > now()
      AND s.id = t.session_id AND ${ALIVE}
    RETURNING s.id, s.user_id, s.expires_at
  ), issued AS (
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT :nextHash, id,
      LEAST(expires_at, now() + make_interval(secs => :refreshTokenSeconds::double precision))
    FROM spent
  ), used AS (
    UPDATE sessions
    SET last_used_at = date_trunc('minute', now()), user_agent = :userAgent, address = :address
    FROM spent WHERE sessions.id = spent.id
  ), replayed AS (
    UPDATE sessions s SET revoked_at = now()
    FROM refresh_tokens t
    WHERE t.token_hash = :tokenHash AND s.id = t.session_id AND s.revoked_at IS NULL
      AND t.rotated_at < now() - make_interval(secs => ${REPLAY_TOLERANCE_SECONDS})
    RETURNING s.id, s.user_id
  )
  SELECT id AS "sessionId", user_id AS "userId", false AS "isReplay" FROM spent
  UNION ALL SELECT id, user_id, true FROM replayed`)

/**
 * Creates an account with its first session.
 *
 * @param account `hasMail`: whether a mail asks to confirm the address
 * @throws {InvalidError} when the e-mail address is taken
 */
export async function createAccount (
  database: Database,
  account: Pick<User, 'email' | 'passwordHash'> & { readonly hasMail: boolean },
  session: NewSession
): Promise<SessionIds> {
  const [created] = await database.run(CREATE_ACCOUNT, { id: uuidv7(), ...account, ...session })
    .catch((error: unknown) => {
      throw isUniqueViolation(error) ? new InvalidError([EMAIL_TAKEN]) : error
    })
  return created as SessionIds
}

/**
 * Starts a session.
 *
 * @returns undefined when the account is gone or its password has changed since the check
 */
export async function startSession (
  database: Database,
  { id: userId, passwordHash }: User,
  session: NewSession
): Promise<SessionIds | undefined> {
  return (await database.run(START, { id: uuidv7(), userId, passwordHash, ...session }))[0]
}

/**
 * Finds a session by its id, and notes its first use of each minute: the minute, and where it comes from.
 *
 * @returns undefined when it has ended or its user is gone
 */
export async function useSession (
  database: Database,
  { sessionId, userId }: SessionIds,
  client: Client
): Promise<Session | undefined> {
  const [session] = await database.run(FIND, { sessionId, userId })
  if (session?.isUseRecorded === false) await database.run(RECORD_USE, { sessionId, ...client })
  return session
}

/**
 * Exchanges a refresh token for the next one, or revokes the session of a token that was exchanged more than
 * 10 seconds ago.
 *
 * @returns undefined when the token is unknown, expired or just used, also by a concurrent call
 */
export async function rotateToken (
  database: Database,
  tokenHash: Hash,
  { tokenHash: nextHash, ...session }: NewSession
): Promise<Rotation | undefined> {
  return (await database.run(ROTATE, { tokenHash, nextHash, ...session }))[0]
}

/**
 * Revokes the session of a refresh token, and `session`, which must belong to the same user.
 *
 * @returns the session of the token; undefined if nothing was revoked, because the token is unknown, expired,
 *   already used or another user's
 */
export async function signOut (
  database: Database,
  tokenHash: Hash,
  session?: Session
): Promise<SessionIds | undefined> {
  const unspent = { tokenHash, rotatedAt: null, expiresAt: { gt: new Date() } }
  const presented = await database.session.findFirst({
    where: { ...isAlive(), ...session && { userId: session.userId }, refreshTokens: { some: unspent } },
    select: { id: true, userId: true }
  })
  if (presented === null) return undefined
  const { id: sessionId, userId } = presented
  const ids = session === undefined ? [sessionId] : [sessionId, session.id]
  const { count } = await database.session.updateMany({
    where: { id: { in: ids }, revokedAt: null },
    data: { revokedAt: new Date() }
  })
  return count > 0 ? { sessionId, userId } : undefined
}

/** Finds the user of a refresh token, also of a used one. @returns undefined when its session has ended */
export async function findUserOfToken (
  database: Database,
  tokenHash: Hash
): Promise<Omit<User, 'passwordHash'> | undefined> {
  const user = await database.user.findFirst({
    where: { sessions: { some: { ...isAlive(), refreshTokens: { some: { tokenHash } } } } },
    select: { id: true, email: true, emailConfirmedAt: true }
  })
  return user ?? undefined
}

/** Whether a refresh token has been exchanged for another one, in a session that has not ended. */
export async function hasSuccessor (database: Database, tokenHash: Hash): Promise<boolean> {
  const where = { tokenHash, rotatedAt: { not: null }, session: isAlive() }
  return await database.refreshToken.count({ where }) > 0
}

/**
 * Lists the sessions of a user, newest first: one more than `page.limit` if there is a next page. Without
 * those whose refresh token has expired, except the session of the request. The address is null for a session
 * that an older release started.
 */
export async function listSessions (database: Database, { userId, id }: Session, { before, limit }: Page) {
  const refreshTokens = { some: { rotatedAt: null, expiresAt: { gt: new Date() } } }
  return await database.session.findMany({
    where: { userId, ...isAlive(), id: { lt: before }, OR: [{ id }, { refreshTokens }] },
    orderBy: { id: 'desc' },
    take: limit + 1,
    select: { id: true, createdAt: true, lastUsedAt: true, userAgent: true, address: true }
  })
}

export const hasSession = async (database: Database, userId: number, id: string): Promise<boolean> =>
  await database.session.count({ where: { id, userId, ...isAlive() } }) > 0

/** Revokes one session of a user. @returns false when there is no such session */
export async function revokeSession (database: Database, userId: number, id: string): Promise<boolean> {
  const { count } = await database.session.updateMany({
    where: { id, userId, ...isAlive() },
    data: { revokedAt: new Date() }
  })
  return count > 0
}
