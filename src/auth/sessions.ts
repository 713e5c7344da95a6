import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Database } from '../database/client.ts'
import { statement } from '../database/statement.ts'
import { uuidv7 } from '../database/uuid.ts'
import { InvalidRefreshTokenError } from '../errors.ts'
import { Prisma, type PrismaClient } from '../generated/prisma/client.ts'
import type { User } from './users.ts'

// PostgreSQL is the truth about sessions. A session's tokens live exactly as long as its row is neither revoked nor past
// its end, so revoking the row revokes them all, on every replica at once. Each change is one conditional statement:
// the rows it changed decide who won, and a process that dies leaves all of it or nothing.

/** Racing tabs present one refresh token twice within moments; later than this it is a replay (RFC 9700, 4.14.2). */
const REPLAY_TOLERANCE_SECONDS = 10

export interface Session {
  readonly id: string
  readonly userId: number
  readonly email: string
}

export interface StartedSession {
  readonly sessionId: string
  readonly userId: number
  /** For the client only; nothing keeps it. */
  readonly refreshToken: string
}

/** What a session's times come from, in seconds. */
export interface Lifetimes {
  readonly refreshTokenSeconds: number
  readonly sessionSeconds: number
}

/** A session of `account`, with its first refresh token, which ends with the session at the latest. */
const NEW_SESSION = `
  session AS (
    INSERT INTO sessions (id, user_id, expires_at)
    SELECT $1::uuid, id, now() + make_interval(secs => $2::double precision) FROM account
    RETURNING id, user_id, expires_at
  ), token AS (
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT $3, id, LEAST(expires_at, now() + make_interval(secs => $4::double precision)) FROM session
  )
  SELECT id AS "sessionId", user_id AS "userId" FROM session`

// The lock makes a change of the password wait for it, or it for that: no session begins with a password that was changed.
const SIGN_IN = statement<Omit<StartedSession, 'refreshToken'>>(`WITH account AS (SELECT id FROM users WHERE id = $5::integer AND password_hash = $6 FOR SHARE), ${NEW_SESSION}`)
const SIGN_UP = statement<Omit<StartedSession, 'refreshToken'>>(`WITH account AS (INSERT INTO users (email, password_hash) VALUES ($5, $6) RETURNING id), ${NEW_SESSION}`)

const FIND = statement<Session>(`
  SELECT s.id, s.user_id AS "userId", u.email
  FROM sessions s JOIN users u ON u.id = s.user_id
  WHERE s.id = $1::uuid AND s.user_id = $2::integer AND s.revoked_at IS NULL AND s.expires_at > now()`)

const ROTATE = statement<{ sessionId: string, userId: number }>(`
  WITH spent AS (
    UPDATE refresh_tokens t SET rotated_at = now()
    FROM sessions s
    WHERE t.token_hash = $1 AND t.rotated_at IS NULL AND t.expires_at > now()
      AND s.id = t.session_id AND s.revoked_at IS NULL AND s.expires_at > now()
    RETURNING s.id, s.user_id, s.expires_at
  ), issued AS (
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT $2, id, LEAST(expires_at, now() + make_interval(secs => $3::double precision))
    FROM spent
  )
  SELECT id AS "sessionId", user_id AS "userId" FROM spent`)

const REVOKE_REPLAYED = statement<{ id: string }>(`
  UPDATE sessions s SET revoked_at = now()
  FROM refresh_tokens t
  WHERE t.token_hash = $1 AND s.id = t.session_id AND s.revoked_at IS NULL
    AND t.rotated_at < now() - make_interval(secs => ${REPLAY_TOLERANCE_SECONDS})
  RETURNING s.id`)

const SIGN_OUT = statement<{ id: string }>(`
  WITH presented AS (
    SELECT s.id FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id
    WHERE t.token_hash = $1 AND t.rotated_at IS NULL AND t.expires_at > now()
      AND s.user_id = $2::integer AND s.revoked_at IS NULL AND s.expires_at > now()
  )
  UPDATE sessions SET revoked_at = now()
  WHERE revoked_at IS NULL AND EXISTS (SELECT FROM presented)
    AND (id = $3::uuid OR id IN (SELECT id FROM presented))
  RETURNING id`)

const newRefreshToken = (): string => randomBytes(32).toString('base64url')

/** Tokens are random, so a plain hash can't be searched; what is stored is of no use to who reads it. */
const hashToken = (token: string) => new Uint8Array(createHash('sha256').update(token).digest())

/** Signs the access token of a session. */
export const signAccessToken = (app: FastifyInstance, userId: number, sessionId: string): string =>
  app.jwt.sign({ sub: String(userId), sid: sessionId, jti: randomUUID() })

/** Starts a session. Undefined when the account is gone, or its password is no longer the one that was looked at. */
export async function startSession (database: Database, { id, passwordHash }: Pick<User, 'id' | 'passwordHash'>, lifetimes: Lifetimes): Promise<StartedSession | undefined> {
  const refreshToken = newRefreshToken()
  const rows = await database.run(SIGN_IN, [uuidv7(), lifetimes.sessionSeconds, hashToken(refreshToken), lifetimes.refreshTokenSeconds, id, passwordHash])
  return rows[0] && { ...rows[0], refreshToken }
}

/**
 * Creates an account with its first session.
 *
 * @throws what `emailTaken` knows when somebody else has signed up with that address in the meantime
 */
export async function createAccount (database: Database, email: string, passwordHash: string, lifetimes: Lifetimes): Promise<StartedSession> {
  const refreshToken = newRefreshToken()
  const rows = await database.run(SIGN_UP, [uuidv7(), lifetimes.sessionSeconds, hashToken(refreshToken), lifetimes.refreshTokenSeconds, email, passwordHash])
  return { ...rows[0] as Omit<StartedSession, 'refreshToken'>, refreshToken }
}

/** The session behind an access token, or undefined when it has ended or its user is gone. */
export async function findSession (database: Database, sessionId: string, userId: number): Promise<Session | undefined> {
  const rows = await database.run(FIND, [sessionId, userId])
  return rows[0]
}

/**
 * Spends a refresh token and issues the next one. Of any number of concurrent uses one wins. A token that was spent
 * before ends its whole session, unless it was spent only moments ago.
 *
 * @param refreshToken as the client sent it, of any type
 * @param onReplay called when the token's session had to be ended
 * @throws {InvalidRefreshTokenError} in every case but the one that wins
 */
export async function rotate (database: Database, refreshToken: unknown, lifetimes: Lifetimes, onReplay = (): void => {}) {
  if (typeof refreshToken !== 'string') throw new InvalidRefreshTokenError()
  const spentHash = hashToken(refreshToken)
  const next = newRefreshToken()
  const rows = await database.run(ROTATE, [spentHash, hashToken(next), lifetimes.refreshTokenSeconds])
  const winner = rows[0]
  if (winner !== undefined) return { ...winner, refreshToken: next }

  // A statement of its own, committed before the error leaves: the revocation must outlive the failed request.
  const revoked = await database.run(REVOKE_REPLAYED, [spentHash])
  if (revoked.length > 0) onReplay()
  throw new InvalidRefreshTokenError()
}

/**
 * Ends the bearer's session and the one of the refresh token, which must be the bearer's own and usable.
 *
 * @throws {InvalidRefreshTokenError} when it isn't; then nothing is revoked
 */
export async function signOut (database: Database, session: Session, refreshToken: unknown): Promise<void> {
  if (typeof refreshToken !== 'string') throw new InvalidRefreshTokenError()
  const revoked = await database.run(SIGN_OUT, [hashToken(refreshToken), session.userId, session.id])
  if (revoked.length === 0) throw new InvalidRefreshTokenError()
}

/** Sessions that are over, and no longer needed to tell a replay. */
const ENDED = Prisma.sql`sessions.expires_at < now() OR sessions.revoked_at < now() - interval '1 day'`
/** Rows that a sweep deletes at once: far within the time that a statement may take. */
const SWEPT_AT_ONCE = 1000

/**
 * Deletes sessions that have ended and refresh tokens that could no longer be used, in small statements: what one of them
 * has done stays done, however much there is. Others that sweep at the same time take other rows.
 */
export async function sweepSessions (database: PrismaClient): Promise<void> {
  const steps = [
    async () => await database.$executeRaw`
      DELETE FROM refresh_tokens WHERE token_hash IN (
        SELECT token_hash FROM refresh_tokens WHERE expires_at < now() LIMIT ${SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)`,
    // Before their sessions, whose deletion would take them all along.
    async () => await database.$executeRaw`
      DELETE FROM refresh_tokens WHERE token_hash IN (
        SELECT token_hash FROM refresh_tokens JOIN sessions ON sessions.id = session_id
        WHERE ${ENDED}
        LIMIT ${SWEPT_AT_ONCE} FOR UPDATE OF refresh_tokens SKIP LOCKED)`,
    async () => await database.$executeRaw`
      DELETE FROM sessions WHERE id IN (
        SELECT id FROM sessions WHERE ${ENDED}
        LIMIT ${SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)`
  ]
  for (const step of steps) while (await step() === SWEPT_AT_ONCE);
}
