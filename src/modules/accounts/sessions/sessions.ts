import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { InvalidRefreshTokenError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { createToken, hashToken } from '../../../infra/system/identifiers.ts'
import { clientOf } from '../authenticate.ts'
import { rotateToken, signOut, startSession, type NewSession, type Session,
  type SessionIds } from './session-repository.ts'
import type { User } from '../user-repository.ts'

// Access and refresh tokens, and the sessions behind them (docs/adr/0005-sessions-in-postgresql.md).

/** A session that was started or refreshed. */
interface IssuedSession {
  readonly userId: number
  /** The tokens of the session, as the client receives them. */
  readonly tokens: { readonly access_token: string, readonly refresh_token: string }
}

/** Starts, refreshes and ends sessions for the routes. */
export class Sessions {
  readonly #app: FastifyInstance

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Starts a session.
   *
   * @returns undefined when the account is gone or its password has changed since the check
   */
  async start (
    request: FastifyRequest,
    user: User,
    event: 'signed_up' | 'signed_in'
  ): Promise<IssuedSession | undefined> {
    const token = createToken()
    const session = await startSession(this.#app.database, user, this.#next(request, token))
    return session && this.#issue(request, event, session, token, user.email)
  }

  /**
   * Exchanges a refresh token for new tokens. Using a token a second time ends its session, unless the first
   * use was less than 10 seconds ago.
   *
   * @throws {InvalidRefreshTokenError} when the token is unknown, expired or already used
   */
  async refresh (request: FastifyRequest, refreshToken: string): Promise<IssuedSession> {
    const token = createToken()
    const next = this.#next(request, token)
    const session = await rotateToken(this.#app.database, hashToken(refreshToken), next)
    if (session?.isReplay === false) return this.#issue(request, 'session_refreshed', session, token)
    if (session !== undefined) {
      this.#app.authCounts.sessions.replayed++
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
  async end (request: FastifyRequest, refreshToken: string, session?: Session): Promise<void> {
    const ended = await signOut(this.#app.database, hashToken(refreshToken), session)
    if (ended === undefined) throw new InvalidRefreshTokenError()
    const { userId, sessionId } = session === undefined ? ended : { ...ended, sessionId: session.id }
    request.userId = userId
    request.sessionId = sessionId
    this.#app.authCounts.sessions.signed_out++
    auditRequest(request, 'signed_out', { user: userId, session: sessionId })
  }

  #next (request: FastifyRequest, token: string): NewSession {
    const { REFRESH_TOKEN_TTL: refreshTokenSeconds, SESSION_TTL: sessionSeconds } = this.#app.config
    return { tokenHash: hashToken(token), refreshTokenSeconds, sessionSeconds, ...clientOf(request) }
  }

  #issue (
    request: FastifyRequest,
    event: 'signed_up' | 'signed_in' | 'session_refreshed',
    { userId, sessionId }: SessionIds,
    token: string,
    email?: string
  ): IssuedSession {
    const { authCounts, hashEmail, jwt } = this.#app
    authCounts.sessions[event === 'session_refreshed' ? 'refreshed' : 'begun']++
    request.userId = userId
    request.sessionId = sessionId
    const emailHash = email === undefined ? undefined : hashEmail(email)
    auditRequest(request, event, { user: userId, session: sessionId, email_hash: emailHash })
    const accessToken = jwt.sign({ sub: String(userId), sid: sessionId, jti: randomUUID() })
    return { userId, tokens: { access_token: accessToken, refresh_token: token } }
  }
}
