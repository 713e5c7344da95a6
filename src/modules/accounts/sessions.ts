import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Database } from '../../infra/postgres/database.ts'
import type { StatementRunner } from '../../infra/postgres/statement.ts'
import { InvalidRefreshTokenError } from '../../errors.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { auditRequest } from '../../http/audit.ts'
import { createAccount, revokeReplayed, revokeSessions, rotateToken, signOutEverywhere, startSession,
  sweepSessions, type Lifetimes, type Session, type SignedOut,
  type StartedSession } from './session-repository.ts'
import { updatePassword, type User } from './user-repository.ts'

// Access and refresh tokens, and the sessions behind them (docs/adr/0005-sessions-in-postgresql.md).

const HOUR_MS = 60 * 60 * 1000

/** The tokens of a session, as the client receives them. */
export interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
}

export interface IssuedSession {
  readonly userId: number
  readonly sessionId: string
  readonly tokens: Tokens
}

const createRefreshToken = (): string => randomBytes(32).toString('base64url')

/** A plain hash is enough, because a random token can't be guessed. The token itself is never stored. */
const hashToken = (token: string): Uint8Array => new Uint8Array(createHash('sha256').update(token).digest())

/** Starts, refreshes and ends sessions for the routes. */
export class Sessions {
  readonly #app: FastifyInstance
  readonly #database: Database
  readonly #lifetimes: Lifetimes

  constructor (app: FastifyInstance) {
    this.#app = app
    this.#database = app.database
    this.#lifetimes = {
      refreshTokenSeconds: app.config.REFRESH_TOKEN_TTL,
      sessionSeconds: app.config.SESSION_TTL
    }
  }

  /**
   * Starts a session.
   *
   * @returns undefined when the account is gone or its password has changed since the check
   */
  async start (user: User): Promise<IssuedSession | undefined> {
    const token = createRefreshToken()
    const session = await startSession(this.#database, user, hashToken(token), this.#lifetimes)
    return session && this.#issue('begun', session, token)
  }

  /**
   * Creates an account with its first session.
   *
   * @throws {InvalidError} when the e-mail address is taken
   */
  async startWithAccount (email: string, passwordHash: string): Promise<IssuedSession> {
    const token = createRefreshToken()
    const account = { email, passwordHash }
    const session = await createAccount(this.#database, account, hashToken(token), this.#lifetimes)
    return this.#issue('begun', session, token)
  }

  /**
   * Exchanges a refresh token for new tokens. Using a token a second time ends its session, unless the first
   * use was less than 10 seconds ago.
   *
   * @throws {InvalidRefreshTokenError} when the token is unknown, expired or already used
   */
  async refresh (request: FastifyRequest, refreshToken: string): Promise<IssuedSession> {
    const spentHash = hashToken(refreshToken)
    const token = createRefreshToken()
    const session = await rotateToken(this.#database, spentHash, hashToken(token), this.#lifetimes)
    if (session !== undefined) return this.#issue('refreshed', session, token)
    // A separate statement, so that the revocation is committed before the error is thrown.
    const replayed = await revokeReplayed(this.#database, spentHash)
    if (replayed !== undefined) {
      this.#app.authCounts.sessions.replayed++
      auditRequest(request, 'token_replayed', { user: replayed.userId, session: replayed.sessionId })
    }
    throw new InvalidRefreshTokenError()
  }

  /**
   * Ends the bearer's session and the session of the refresh token.
   *
   * @throws {InvalidRefreshTokenError} when the token is unusable or another user's; nothing is revoked then
   */
  async end (session: Session, refreshToken: string): Promise<void> {
    const isRevoked = await revokeSessions(this.#database, session, hashToken(refreshToken))
    if (!isRevoked) throw new InvalidRefreshTokenError()
    this.#app.authCounts.sessions.signed_out++
  }

  #issue (event: 'begun' | 'refreshed', { userId, sessionId }: StartedSession, token: string): IssuedSession {
    this.#app.authCounts.sessions[event]++
    const accessToken = this.#app.jwt.sign({ sub: String(userId), sid: sessionId, jti: randomUUID() })
    return { userId, sessionId, tokens: { access_token: accessToken, refresh_token: token } }
  }
}

/** Deletes ended sessions every hour until the app closes. */
export function startSweeps (app: FastifyInstance): void {
  runPeriodically(
    app,
    { intervalMs: HOUR_MS },
    async () =>
      await sweepSessions(app.database).catch((error: unknown) =>
        app.log.warn({ err: error }, 'ended sessions could not be deleted; trying again in an hour')
      )
  )
}

/**
 * Sets the password of an account, then ends all its sessions. The second statement runs after the first has
 * committed, so that it also ends sessions that were started with the old password in the meantime.
 *
 * @param email normalised
 * @returns undefined when there is no such account
 */
export async function setPassword (
  database: StatementRunner,
  email: string,
  passwordHash: string
): Promise<SignedOut | undefined> {
  return await updatePassword(database, email, passwordHash) ? await signOutEverywhere(database, email)
    : undefined
}
