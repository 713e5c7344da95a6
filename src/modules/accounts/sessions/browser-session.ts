import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ForeignOriginError, InvalidRefreshTokenError } from '../../../errors.ts'
import { allowTypeWithoutBody } from '../../../http/json-body.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { describeCommonErrors, response, errors, UNKNOWN_PARAMETER, nothing,
  tagRoutes } from '../../../http/schemas.ts'
import { hashToken } from '../../../infra/system/identifiers.ts'
import { limitByAddress } from '../request-limits.ts'
import { AccessToken, EXAMPLE_TOKENS, User, userRecord } from '../schemas.ts'
import { findUserOfToken, hasSuccessor } from './session-repository.ts'
import { endSession, refreshSession } from './sessions.ts'

/** The only route that gets the cookie. */
const BROWSER_SESSION_PATH = '/auth/browser_session'
/** A refresh token, as createToken() makes it. */
const TOKEN = /^[\w-]{43}$/

const ORIGIN =
  'Only pages of the service itself may send this request: its `Origin` must be that of `BASE_URL` or of ' +
  'the host that it is sent to.'

const FOREIGN_ORIGIN =
  "Cookie sessions are accepted only from this service's own pages; open it at https://landfall.example.com"

/** A refused cookie is deleted, or about to be replaced. */
const REFUSED = errors([401], ['Set-Cookie?', 'Retry-After?'], { 401: 'Invalid or expired refresh token' })

const BrowserSession = Type.Object({ access_token: AccessToken, user: User }, { title: 'BrowserSession' })

const renewBrowserSessionSchema = {
  operationId: 'renewBrowserSession',
  summary: 'Keep the session of a browser in a cookie',
  description:
    "Exchanges a refresh token for the next one, which it sets as a cookie that scripts can't read: that " +
    'of the body after a sign-in, and from then on that of the cookie. A refresh token can be used once, ' +
    `and a replay ends the session, as with \`/auth/refresh\`. A refused cookie is deleted. If another ` +
    `request has renewed it less than 10 seconds ago, it is not, and the 401 has a \`Retry-After\`: by ` +
    `then the browser has the next cookie. Without a refresh token and a cookie, the response is a 204. ` +
    ORIGIN,
  body: Type.Union([
    Type.Object({
      refresh_token: Type.Optional(Type.String({
        description: 'The refresh token of a sign-in; without it, that of the cookie is used'
      }))
    }, { title: 'BrowserSessionFields' }),
    Type.Null()
  ], { examples: [{ refresh_token: EXAMPLE_TOKENS.refresh_token }] }),
  response: {
    200: response(BrowserSession, 'A new access token, and the account', 'Set-Cookie'),
    204: nothing('The browser has no session'),
    ...REFUSED,
    ...errors([403, 422, 429], [], { ...UNKNOWN_PARAMETER, 403: FOREIGN_ORIGIN })
  }
}

const endBrowserSessionSchema = {
  operationId: 'endBrowserSession',
  summary: 'Sign a browser out',
  description:
    `Ends the session of the cookie immediately, on all replicas, and deletes the cookie. ${ORIGIN}`,
  response: {
    204: nothing('Signed out', 'Set-Cookie'),
    ...REFUSED,
    ...errors([403, 429], [], { 403: FOREIGN_ORIGIN })
  }
}

/** By then the browser has the cookie of a renewal that was answered at the same time. */
const NEXT_COOKIE_SECONDS = 1

/** The cookie in which a browser keeps the refresh token of its session. Scripts can't read it. */
function sessionCookie ({ config, publicPath }: FastifyInstance) {
  const isSecure = config.BASE_URL?.startsWith('https://') === true
  // A page without TLS can't set a cookie with this prefix, so nobody on the network can plant one.
  const name = isSecure ? '__Secure-landfall_session' : 'landfall_session'
  const pattern = new RegExp(`(?:^|;)[ \\t]*${name}=([^;]*)`, 'g')
  const path = publicPath(BROWSER_SESSION_PATH)
  const attributes = `Path=${path}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
  const send = (reply: FastifyReply, token: string, maxAgeSeconds: number) =>
    reply.header('set-cookie', `${name}=${token}; Max-Age=${maxAgeSeconds}; ${attributes}`)

  return {
    /** Returns the values of the cookie. A page of a sibling domain may have planted a second one. */
    valuesIn: ({ headers: { cookie = '' } }: FastifyRequest): string[] =>
      [...cookie.matchAll(pattern)].map(([, value = '']) => value.trim()),
    set: (reply: FastifyReply, token: string) => send(reply, token, config.REFRESH_TOKEN_TTL),
    clear: (reply: FastifyReply) => send(reply, '', 0)
  }
}

/**
 * The routes that keep the refresh token of a browser in a cookie. Browsers add it to requests of any page,
 * so each request must come from a page of the service itself.
 */
export const browserSessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, database } = app
  const cookie = sessionCookie(app)
  tagRoutes(app, 'Accounts')
  describeCommonErrors(app)
  allowTypeWithoutBody(app, ['POST', 'DELETE'])
  app.addHook('onRequest', (request, reply, done) => {
    reply.removeHeader('access-control-allow-origin') // CORS_ORIGINS lists no pages of the service
    const baseUrl = app.baseUrl()
    done(isOwnOrigin(request, baseUrl) ? undefined : new ForeignOriginError(baseUrl))
  })
  app.addHook('onRequest', limitByAddress(app, 'refresh', config.REFRESHES_PER_ADDRESS))

  /** Uses the token of the cookie. Clears the cookie if the token is refused. */
  async function useCookie<T> (
    request: FastifyRequest,
    reply: FastifyReply,
    use: (token: string) => Promise<T>
  ): Promise<T> {
    const values = cookie.valuesIn(request)
    const [token = ''] = values
    try {
      if (values.length !== 1 || !TOKEN.test(token)) throw new InvalidRefreshTokenError()
      return await use(token)
    } catch (error) {
      if (!(error instanceof InvalidRefreshTokenError) || values.length !== 1) throw error
      // When another tab, or this one before a reload, has just renewed the session, that response carries
      // the next cookie. The browser may receive it before this response, which must not delete it.
      if (TOKEN.test(token) && await hasSuccessor(database, hashToken(token))) {
        reply.header('retry-after', NEXT_COOKIE_SECONDS)
      } else cookie.clear(reply)
      throw error
    }
  }

  async function renew (request: FastifyRequest, reply: FastifyReply, token: string) {
    // Before the exchange: a page that is loaded again while PostgreSQL is away must not spend its token.
    const user = await findUserOfToken(database, hashToken(token))
    if (user === undefined) throw new InvalidRefreshTokenError()
    const tokens = await refreshSession(request, token)
    cookie.set(reply, tokens.refresh_token)
    return { access_token: tokens.access_token, user: userRecord(user) }
  }

  app.post(BROWSER_SESSION_PATH, {
    schema: renewBrowserSessionSchema,
    schemaErrorFormatter: () => new InvalidRefreshTokenError()
  }, async (request, reply) => {
    const token = request.body?.refresh_token
    if (token !== undefined) return await renew(request, reply, token)
    // Browsers print each 401 as an error, and whoever opens the console for the first time has done none.
    if (cookie.valuesIn(request).length === 0) return sendWithoutBody(reply.code(204))
    return await useCookie(request, reply, async (kept) => await renew(request, reply, kept))
  })

  app.delete(BROWSER_SESSION_PATH, { schema: endBrowserSessionSchema }, async (request, reply) => {
    await useCookie(request, reply, async (token) => await endSession(request, token))
    cookie.clear(reply)
    return sendWithoutBody(reply.code(204))
  })
}

/**
 * Whether a request comes from a page of the service: of BASE_URL, or of the host to which it is addressed.
 * Pages of another port are of another origin, although browsers share cookies among ports. `request.host`
 * would believe X-Forwarded-Host, which most proxies pass on as the client sent it.
 */
function isOwnOrigin ({ headers: { origin = '', host = '' } }: FastifyRequest, baseUrl: string): boolean {
  if (!URL.canParse(origin) || new URL(origin).origin !== origin) return false
  if (origin === new URL(baseUrl).origin) return true
  const { protocol } = new URL(origin)
  // A page over plain HTTP may be forged by anybody on the network.
  if (protocol !== 'https:' && baseUrl.startsWith('https:')) return false
  const requestedOrigin = `${protocol}//${host}`
  return URL.canParse(requestedOrigin) && new URL(requestedOrigin).origin === origin
}
