import { createHmac } from 'node:crypto'
import fastifyJwt from '@fastify/jwt'
import fp from 'fastify-plugin'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { findSession, type Session } from './session-repository.ts'
import { clock } from '../../infra/system/clock.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { UnauthorizedError } from '../../errors.ts'
import { isUuid } from '../../infra/system/identifiers.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** A keyed hash of a normalised e-mail address, for the audit trail. */
    hashEmail: (email: string) => string
  }
  interface FastifyRequest {
    /** The session of the access token. Set in the authenticated scope, before the body is read. */
    session: Session
    /** When PostgreSQL last confirmed the session, in milliseconds of the process clock. */
    sessionSeenAt: number
  }
}

const ISSUER = 'landfall'
const AUDIENCE = 'landfall-management'
/** RFC 9068 */
const TOKEN_TYPE = 'at+jwt'
/** RFC 6750, 2.1: the scheme, one or more spaces, and a token of these characters. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i
const MAX_USER_ID = 2 ** 31 - 1
/** A session isn't looked up again within this time, so a write may succeed this long after a sign-out. */
const SESSION_FRESH_MS = 1000

/**
 * Adds hooks that require a valid access token on all routes of `scope`. A handler that reads the body itself
 * must call `confirmSession` when the body is complete.
 */
export function requireSession (scope: FastifyInstance): void {
  scope.addHook('onRequest', async (request, reply) => {
    const { method } = request
    // Browsers may keep what they read, but ask each time whether it has changed.
    if (method === 'GET' || method === 'HEAD') {
      reply.removeHeader('cache-control').cacheControl('private').cacheControl('no-cache')
    }
    request.session = await sessionOf(scope, request)
    // The time after the query, so that a slow query doesn't cause a second one.
    request.sessionSeenAt = clock.now()
    request.userId = request.session.userId
    request.sessionId = request.session.id
  })
  // Before validation, so that a request with an ended session and an invalid body gets a 401.
  scope.addHook('preValidation', async (request) => await confirmSession(scope.database, request))
}

/**
 * Looks the session up again if the last lookup is more than a second ago, because the session may have been
 * revoked while the body arrived. Call it right before a write. The expiry of the access token isn't checked
 * again, so that an upload may take longer than the token is valid.
 *
 * @throws {UnauthorizedError} when the session has ended
 */
export async function confirmSession (database: Database, request: FastifyRequest): Promise<void> {
  if (clock.now() - request.sessionSeenAt <= SESSION_FRESH_MS) return
  const { id, userId } = request.session
  if (await findSession(database, id, userId) === undefined) throw new UnauthorizedError()
  request.sessionSeenAt = clock.now()
}

async function sessionOf (app: FastifyInstance, request: FastifyRequest): Promise<Session> {
  const token = BEARER.exec(request.headers.authorization ?? '')?.[1]
  if (token === undefined) throw new UnauthorizedError()
  const { sub, sid } = claimsOf(app, token)
  if (typeof sub !== 'string' || !/^[1-9]\d{0,9}$/.test(sub) || Number(sub) > MAX_USER_ID || !isUuid(sid)) {
    throw new UnauthorizedError()
  }
  const session = await findSession(app.database, sid, Number(sub))
  if (session === undefined) throw new UnauthorizedError()
  return session
}

function claimsOf (app: FastifyInstance, token: string): Record<string, unknown> {
  let claims: unknown
  try {
    claims = app.jwt.verify(token)
  } catch (error) {
    throw new UnauthorizedError({ cause: error })
  }
  if (typeof claims !== 'object' || claims === null) throw new UnauthorizedError()
  const { jti, iat } = claims as Record<string, unknown>
  if (!isUuid(jti) || typeof iat !== 'number' || iat > Date.now() / 1000 + 60) throw new UnauthorizedError()
  return claims as Record<string, unknown>
}

export default fp<{ secret: string, accessTokenSeconds: number }>(
  async (app, { secret, accessTokenSeconds }) => {
    await app.register(fastifyJwt, {
      secret,
      sign: {
        algorithm: 'HS256',
        iss: ISSUER,
        aud: AUDIENCE,
        expiresIn: accessTokenSeconds,
        header: { alg: 'HS256', typ: TOKEN_TYPE }
      },
      verify: {
        algorithms: ['HS256'],
        allowedIss: ISSUER,
        allowedAud: AUDIENCE,
        checkTyp: TOKEN_TYPE,
        requiredClaims: ['iss', 'aud', 'sub', 'sid', 'jti', 'iat', 'exp'],
        cache: false
      }
    })
    const auditKey = createHmac('sha256', secret).update('e-mail addresses in the audit trail').digest()
    app.decorate('hashEmail', (email) => createHmac('sha256', auditKey).update(email).digest('base64url'))
    app.decorateRequest('session', null as unknown as Session)
    app.decorateRequest('sessionSeenAt', -Infinity)
  },
  { name: 'authenticate', dependencies: ['database', '@fastify/sensible'] }
)
