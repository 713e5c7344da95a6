import fastifyJwt from '@fastify/jwt'
import fp from 'fastify-plugin'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { findSession, type Session } from '../auth/sessions.ts'
import { clock } from '../clock.ts'
import type { Database } from '../database/client.ts'
import { UnauthorizedError } from '../errors.ts'
import { isUuid } from '../identifiers.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose request this is; set in the authenticated scope, before the body is read. */
    session: Session
    /** When PostgreSQL last said that it lives, in milliseconds of the process clock. */
    sessionSeenAt: number
  }
}

const ISSUER = 'landfall'
const AUDIENCE = 'landfall-management'
/** RFC 9068; a refresh token is opaque, so it can never pass for one. */
const TOKEN_TYPE = 'at+jwt'
/** RFC 6750: the scheme, one or more spaces, a token of these characters. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i
const MAX_USER_ID = 2 ** 31 - 1
/**
 * A session that was seen so recently is not looked up again. Long enough that a usual request costs one look, and short
 * enough that nobody can hold back the end of a body to write after a sign-out.
 */
const SESSION_FRESH_MS = 1000

/**
 * Adds the hooks that let only requests with a valid access token into `scope`. A handler that reads the body itself has
 * to call `confirmSession` when it has all of it.
 */
export function requireSession (scope: FastifyInstance): void {
  scope.addHook('onRequest', async (request, reply) => {
    reply.preventCache()
    request.session = await sessionOf(scope, request)
    // From the answer on, not from the question: a PostgreSQL that is slow is not to be asked twice for that.
    request.sessionSeenAt = clock.now()
    request.userId = request.session.userId
  })
  scope.addHook('preHandler', async (request) => await confirmSession(scope.database, request))
}

/**
 * Looks again whether the session lives when the last look is a while ago: it may have been revoked while the body
 * arrived. To be called right before a write. The token may expire meanwhile, or no upload could take longer than that.
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
  if (typeof sub !== 'string' || !/^[1-9]\d{0,9}$/.test(sub) || Number(sub) > MAX_USER_ID || !isUuid(sid)) throw new UnauthorizedError()
  const session = await findSession(app.database, sid, Number(sub))
  if (session === undefined) throw new UnauthorizedError()
  return session
}

function claimsOf (app: FastifyInstance, token: string): Record<string, unknown> {
  let claims: unknown
  try {
    claims = app.jwt.verify(token)
  } catch (error) {
    // Whatever is wrong with a token, it isn't one of ours.
    throw new UnauthorizedError({ cause: error })
  }
  if (typeof claims !== 'object' || claims === null) throw new UnauthorizedError()
  const { jti, iat } = claims as Record<string, unknown>
  if (!isUuid(jti) || typeof iat !== 'number' || iat > Date.now() / 1000 + 60) throw new UnauthorizedError()
  return claims as Record<string, unknown>
}

export default fp<{ secret: string, accessTokenSeconds: number }>(async (app, { secret, accessTokenSeconds }) => {
  await app.register(fastifyJwt, {
    secret,
    sign: { algorithm: 'HS256', iss: ISSUER, aud: AUDIENCE, expiresIn: accessTokenSeconds, header: { alg: 'HS256', typ: TOKEN_TYPE } },
    verify: {
      algorithms: ['HS256'],
      allowedIss: ISSUER,
      allowedAud: AUDIENCE,
      checkTyp: TOKEN_TYPE,
      requiredClaims: ['iss', 'aud', 'sub', 'sid', 'jti', 'iat', 'exp'],
      cache: false
    }
  })
  app.decorateRequest('session', null as unknown as Session)
  app.decorateRequest('sessionSeenAt', -Infinity)
}, { name: 'authenticate', dependencies: ['database', '@fastify/sensible'] })
