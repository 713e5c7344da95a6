import { createHmac } from 'node:crypto'
import fastifyJwt from '@fastify/jwt'
import fp from 'fastify-plugin'
import type { FastifyContextConfig, FastifyInstance, FastifyRequest, FastifySchema } from 'fastify'
import { ClientGoneError, EmailUnconfirmedError, InsufficientScopeError, InvalidKeyError, KeyNotAcceptedError,
  UnauthorizedError } from '../../errors.ts'
import { bearer, describeCommonErrors, tagRoutes } from '../../http/schemas.ts'
import { clock } from '../../infra/system/clock.ts'
import { isUuid } from '../../infra/system/identifiers.ts'
import type { KeyedSemaphore } from '../../infra/system/semaphore.ts'
import { useKey, hasScope, isApiKey, looksLikeApiKey, type Resource,
  type Scope } from './api-keys/key-repository.ts'
import { useSession, type Client, type Session } from './sessions/session-repository.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** A keyed hash of a normalised e-mail address, for the audit trail. */
    hashEmail: (email: string) => string
  }
  interface FastifyContextConfig {
    /** The scope that a key needs for a write, if it isn't that of all pages or assets. */
    writeScope?: Scope
  }
  interface FastifyRequest {
    /** Who sends the request. Set in scopes that authenticate, before the body is read. */
    caller: Caller
    /** When PostgreSQL last confirmed the caller, in milliseconds of the process clock. */
    callerSeenAt: number
    /** The session of the access token. Set in the scope of requireSession(), like the caller. */
    session: Session
  }
}

/** Who is named as the author of a version. */
export interface Author {
  readonly type: 'user' | 'api_key'
  /** The e-mail of the user, or the name of the key. */
  readonly name: string
}

/** A user, by a session or by an API key. */
export interface Caller {
  readonly userId: number
  readonly author: Author
  readonly hasConfirmedEmail: boolean
  /** Whether responses to the caller may contain documents. */
  readonly seesDocuments: boolean
  /** Looks the session or the key up again. Resolves to false if it has ended. */
  readonly isValid: () => Promise<boolean>
}

const ISSUER = 'landfall'
const AUDIENCE = 'landfall-management'
/** RFC 9068 */
const TOKEN_TYPE = 'at+jwt'
/** RFC 6750, 2.1: the scheme, one or more spaces, and a token of these characters. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i
const MAX_USER_ID = 2 ** 31 - 1
/** A caller isn't looked up again within this time, so a write may succeed this long after a sign-out. */
const CALLER_FRESH_MS = 1000
/** Characters of a User-Agent that are kept. */
const USER_AGENT_MAX = 256

/** Whether a method changes nothing (RFC 9110, 9.2.1). */
const isSafe = (method: string): boolean => method === 'GET' || method === 'HEAD'

/** Adds hooks that require an access token on all `routes`. API keys are refused there. */
export function requireSession (routes: FastifyInstance): void {
  tagRoutes(routes, 'Accounts')
  describeSecurity(routes, () => bearer)
  describeCommonErrors(routes, [401])
  authenticateCallers(routes, async (request) => {
    request.session = await sessionOf(routes, request)
    return callerOfSession(routes, request, request.session)
  })
}

/** Returns the scope that a key needs. The response of a write shows what it wrote without another scope. */
const scopeFor = (resource: Resource, method: string, { writeScope }: FastifyContextConfig = {}): Scope =>
  isSafe(method) ? `${resource}:read` : writeScope ?? `${resource}:write`

/**
 * Requires an access token, or an API key with the scope for the method, on all `routes`. Scopes are checked
 * only here, and the OpenAPI document gets them from here.
 */
export function requireAccess (routes: FastifyInstance, resource: Resource): void {
  tagRoutes(routes, resource === 'pages' ? 'Landing Pages' : 'Assets')
  describeSecurity(routes, (method, config) => [...bearer, { apiKey: [scopeFor(resource, method, config)] }])
  describeCommonErrors(routes, [401, 403])
  authenticateCallers(
    routes,
    async (request) => {
      const token = bearerOf(request)
      return looksLikeApiKey(token) ? await callerOfKey(routes, request, token, resource)
        : callerOfSession(routes, request, await sessionOf(routes, request, token))
    }
  )
  requireConfirmedEmail(routes)
}

/** Adds to the schemas of all `routes` what a request may authenticate itself with. */
function describeSecurity (
  routes: FastifyInstance,
  securityFor: (method: string, config?: FastifyContextConfig) => FastifySchema['security'] & {}
): void {
  routes.addHook('onRoute', (route) => {
    const method = [route.method].flat()[0] as string
    route.schema = { ...route.schema, security: securityFor(method, route.config) }
  })
}

/** With REQUIRE_CONFIRMED_EMAIL, refuses writes of users whose address isn't confirmed. */
export function requireConfirmedEmail (routes: FastifyInstance): void {
  if (!routes.config.REQUIRE_CONFIRMED_EMAIL) return
  routes.addHook('onRequest', async ({ method, caller }) => {
    if (!isSafe(method) && !caller.hasConfirmedEmail) throw new EmailUnconfirmedError()
  })
}

async function callerOfKey (
  { countKeyUse, database }: FastifyInstance,
  request: FastifyRequest,
  text: string,
  resource: Resource
): Promise<Caller> {
  const key = isApiKey(text) ? await useKey(database, text) : undefined
  if (key === undefined) throw new InvalidKeyError()
  const { id, userId, name, scopes, hasConfirmedEmail } = key
  request.userId = userId
  request.keyId = id
  countKeyUse(id)
  const needed = scopeFor(resource, request.method, request.routeOptions.config)
  if (!hasScope(scopes, needed)) throw new InsufficientScopeError(needed)
  return {
    userId,
    author: { type: 'api_key', name },
    hasConfirmedEmail,
    seesDocuments: hasScope(scopes, 'pages:read') || hasScope(scopes, 'pages:write'),
    isValid: async () => await useKey(database, text) !== undefined
  }
}

/**
 * Adds hooks that look up the caller on all `routes`. A handler that reads the body itself must call
 * confirmCaller() when the body is complete.
 *
 * @param identify throws an error with the response to a request that isn't allowed
 */
function authenticateCallers (
  routes: FastifyInstance,
  identify: (request: FastifyRequest) => Promise<Caller>
): void {
  routes.addHook('onRequest', async (request, reply) => {
    // Browsers may keep what they read, but ask each time whether it has changed.
    if (isSafe(request.method)) {
      reply.removeHeader('cache-control').cacheControl('private').cacheControl('no-cache')
    }
    request.caller = await identify(request)
    // The time after the query, so that a slow query doesn't cause a second one.
    request.callerSeenAt = clock.now()
  })
  // Before validation, so that a request with an ended session and an invalid body gets a 401.
  routes.addHook('preValidation', confirmCaller)
}

/**
 * Looks the caller up again if the last lookup is more than a second ago, because the session or the key may
 * have ended while the body arrived or the request waited. Call it right before a write. The expiry of the
 * access token isn't checked again, so that an upload may take longer than the token is valid.
 *
 * @throws {UnauthorizedError} when the session has ended
 * @throws {InvalidKeyError} when the key has ended
 */
export async function confirmCaller (request: FastifyRequest): Promise<void> {
  if (clock.now() - request.callerSeenAt <= CALLER_FRESH_MS) return
  if (!await request.caller.isValid()) {
    throw request.keyId === undefined ? new UnauthorizedError() : new InvalidKeyError()
  }
  request.callerSeenAt = clock.now()
}

/**
 * Runs a task of a request when it is the turn of the caller's account in a queue, if the client and the
 * caller's access are still there.
 *
 * @throws {ClientGoneError} when the client has closed the connection
 * @throws the errors of confirmCaller() and of the task
 */
export const runInTurn = async <T>(
  queue: KeyedSemaphore<number>,
  request: FastifyRequest,
  task: () => Promise<T>
): Promise<T> =>
  await queue.run(request.caller.userId, async () => {
    if (request.raw.socket.destroyed) throw new ClientGoneError()
    await confirmCaller(request)
    return await task()
  })

/** Returns the bearer token of a request; undefined when there is none. */
export const findBearer = ({ headers }: FastifyRequest): string | undefined =>
  BEARER.exec(headers.authorization ?? '')?.[1]

/** Returns the bearer token of a request. @throws {UnauthorizedError} when there is none */
function bearerOf (request: FastifyRequest): string {
  const token = findBearer(request)
  if (token === undefined) throw new UnauthorizedError()
  return token
}

/**
 * Returns the session of the access token of a request.
 *
 * @param token the bearer token of the request
 * @throws {UnauthorizedError} when the token is missing or invalid, or its session has ended
 * @throws {KeyNotAcceptedError} when it is an API key
 */
export async function sessionOf (
  app: FastifyInstance,
  request: FastifyRequest,
  token = bearerOf(request)
): Promise<Session> {
  if (looksLikeApiKey(token)) throw new KeyNotAcceptedError()
  const { sub, sid } = claimsOf(app, token)
  if (typeof sub !== 'string' || !/^[1-9]\d{0,9}$/.test(sub) || Number(sub) > MAX_USER_ID || !isUuid(sid)) {
    throw new UnauthorizedError()
  }
  const started = { sessionId: sid, userId: Number(sub) }
  const session = await useSession(app.database, started, clientOf(request))
  if (session === undefined) throw new UnauthorizedError()
  request.userId = session.userId
  request.sessionId = session.id
  return session
}

function callerOfSession (
  { database }: FastifyInstance,
  request: FastifyRequest,
  { id: sessionId, userId, email, emailConfirmedAt }: Session
): Caller {
  return {
    userId,
    author: { type: 'user', name: email },
    hasConfirmedEmail: emailConfirmedAt !== null,
    seesDocuments: true,
    isValid: async () => await useSession(database, { sessionId, userId }, clientOf(request)) !== undefined
  }
}

/** Returns where a request comes from, as the list of sessions shows it. */
export function clientOf (request: FastifyRequest): Client {
  return {
    userAgent: request.headers['user-agent']?.slice(0, USER_AGENT_MAX) ?? null,
    address: request.server.addressOf(request).full
  }
}

/** Returns the claims of a token that is signed with JWT_SECRET or with JWT_SECRET_PREVIOUS. */
function verifyToken ({ config, jwt }: FastifyInstance, token: string): unknown {
  try {
    return jwt.verify(token)
  } catch (error) {
    const key = config.JWT_SECRET_PREVIOUS
    if (key === undefined || (error as { code?: string }).code !== 'FAST_JWT_INVALID_SIGNATURE') throw error
    return jwt.verify(token, { key }) // with all other options as above
  }
}

function claimsOf (app: FastifyInstance, token: string): Record<string, unknown> {
  let claims: unknown
  try {
    claims = verifyToken(app, token)
  } catch (error) {
    throw Object.assign(new UnauthorizedError(), { cause: error })
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
    app.decorateRequest('caller', null as unknown as Caller)
    app.decorateRequest('callerSeenAt', -Infinity)
    app.decorateRequest('session', null as unknown as Session)
  },
  { name: 'authenticate', dependencies: ['database', '@fastify/sensible'] }
)
