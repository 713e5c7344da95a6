import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { sendsMail } from '../../../config.ts'
import { InvalidRefreshTokenError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { createToken, hashToken } from '../../../infra/system/identifiers.ts'
import { clientOf } from '../authenticate.ts'
import { createAccount, rotateToken, signOut, startSession, type NewSession, type Session,
  type SessionIds } from './session-repository.ts'
import type { User } from '../user-repository.ts'

// Access and refresh tokens, and the sessions behind them (docs/adr/0005-sessions-in-postgresql.md).

/** The tokens of a session, as the client receives them. */
interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
}

/**
 * Begins a session.
 *
 * @returns undefined when the account is gone or its password has changed since the check
 */
export async function beginSession (request: FastifyRequest, user: User): Promise<Tokens | undefined> {
  const token = createToken()
  const session = await startSession(request.server.database, user, nextSession(request, token))
  return session && issueTokens(request, 'signed_in', session, token, user.email)
}

/**
 * Creates an account, and begins its first session.
 *
 * @throws {InvalidError} when the e-mail address is taken
 */
export async function beginWithAccount (
  request: FastifyRequest,
  email: string,
  passwordHash: string
): Promise<{ id: number, tokens: Tokens }> {
  const { config, database } = request.server
  const token = createToken()
  const account = { email, passwordHash, hasMail: sendsMail(config) }
  const session = await createAccount(database, account, nextSession(request, token))
  return { id: session.userId, tokens: issueTokens(request, 'signed_up', session, token, email) }
}

/**
 * Exchanges a refresh token for new tokens. Using a token a second time ends its session, unless the first
 * use was less than 10 seconds ago.
 *
 * @throws {InvalidRefreshTokenError} when the token is unknown, expired or already used
 */
export async function refreshSession (request: FastifyRequest, refreshToken: string): Promise<Tokens> {
  const { authCounts, database } = request.server
  const token = createToken()
  const session = await rotateToken(database, hashToken(refreshToken), nextSession(request, token))
  if (session?.isReplay === false) return issueTokens(request, 'session_refreshed', session, token)
  if (session !== undefined) {
    authCounts.sessions.replayed++
    auditRequest(request, 'token_replayed', { user: session.userId, session: session.sessionId })
  }
  throw new InvalidRefreshTokenError()
}

/**
 * Ends the session of a refresh token, and that of the request if it has one.
 *
 * @throws {InvalidRefreshTokenError} when the token is unknown, expired, already used or another user's;
 *   nothing is revoked then
 */
export async function endSession (
  request: FastifyRequest,
  refreshToken: string,
  session?: Session
): Promise<void> {
  const { authCounts, database } = request.server
  const ended = await signOut(database, hashToken(refreshToken), session)
  if (ended === undefined) throw new InvalidRefreshTokenError()
  const { userId, sessionId } = session === undefined ? ended : { ...ended, sessionId: session.id }
  request.userId = userId
  request.sessionId = sessionId
  authCounts.sessions.signed_out++
  auditRequest(request, 'signed_out')
}

function nextSession (request: FastifyRequest, token: string): NewSession {
  const { REFRESH_TOKEN_TTL: refreshTokenSeconds, SESSION_TTL: sessionSeconds } = request.server.config
  return { tokenHash: hashToken(token), refreshTokenSeconds, sessionSeconds, ...clientOf(request) }
}

function issueTokens (
  request: FastifyRequest,
  event: 'signed_up' | 'signed_in' | 'session_refreshed',
  { userId, sessionId }: SessionIds,
  token: string,
  email?: string
): Tokens {
  const { authCounts, hashEmail, jwt } = request.server
  authCounts.sessions[event === 'session_refreshed' ? 'refreshed' : 'begun']++
  request.userId = userId
  request.sessionId = sessionId
  const emailHash = email === undefined ? undefined : hashEmail(email)
  auditRequest(request, event, { email_hash: emailHash })
  const accessToken = jwt.sign({ sub: String(userId), sid: sessionId, jti: randomUUID() })
  return { access_token: accessToken, refresh_token: token }
}
