import rateLimit from '@fastify/rate-limit'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { InvalidCredentialsError, tooManyRequests } from '../errors.ts'
import { sendNothing } from '../reply.ts'
import { meSchema, refreshSchema, signInSchema, signOutSchema, signUpSchema } from './schemas.ts'
import { createAccount, rotate, signAccessToken, signOut, startSession, sweepSessions, type Lifetimes } from './sessions.ts'
import { perAddress, rateLimitStore, SignInThrottle } from './throttle.ts'
import { inTurns } from './turnstile.ts'
import { checkSignUp, emailTaken, fieldsOf, findUser, isEmailAddress, normalizeEmail, type User } from './users.ts'

const HOUR_MS = 60 * 60 * 1000
/** Sign-ins and sign-ups that are begun in one turn of the event loop. */
const BEGUN_PER_TURN = 2

const lifetimesOf = (config: { REFRESH_TOKEN_TTL: number, SESSION_TTL: number }): Lifetimes =>
  ({ refreshTokenSeconds: config.REFRESH_TOKEN_TTL, sessionSeconds: config.SESSION_TTL })

/** The routes that need no access token. */
export const authRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, config, database, passwords } = app
  const lifetimes = lifetimesOf(config)
  const throttle = new SignInThrottle(app)
  const turns = inTurns(BEGUN_PER_TURN)
  app.addHook('onRequest', (_request, reply, done) => {
    reply.preventCache() // tokens
    done()
  })
  await app.register(rateLimit, {
    global: false,
    store: rateLimitStore(app.counters),
    addHeadersOnExceeding: { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false },
    addHeaders: { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false, 'retry-after': false },
    errorResponseBuilder: (_request, context) => tooManyRequests(context.ttl / 1000)
  })

  /** Costs the same whether there is such an account or not. */
  async function userOf (email: string, password: string): Promise<User | undefined> {
    let found: User | undefined
    const same = await passwords.verify(async () => {
      found = isEmailAddress(email) ? await findUser(database, email) : undefined
      return found?.passwordHash
    }, password)
    return same ? found : undefined
  }

  app.post('/auth/sign_up', { schema: signUpSchema, onRequest: turns, config: perAddress('sign-up', config.SIGN_UPS_PER_ADDRESS, () => { authCounts.throttled.sign_up++ }) }, async (request, reply) => {
    const { email, password } = await checkSignUp(database, request.body)
    const passwordHash = await passwords.hash(password)
    const { userId, sessionId, refreshToken } = await createAccount(database, email, passwordHash, lifetimes)
      .catch((error: unknown) => { throw emailTaken(error) })
    authCounts.sessions.begun++
    request.userId = userId
    reply.code(201)
    return { user: { id: userId, email }, access_token: signAccessToken(app, userId, sessionId), refresh_token: refreshToken }
  })

  app.post('/auth/sign_in', { schema: signInSchema, onRequest: turns }, async (request) => {
    const credentials = fieldsOf(fieldsOf(request.body).user)
    const email = typeof credentials.email === 'string' ? normalizeEmail(credentials.email) : ''
    const password = typeof credentials.password === 'string' ? credentials.password : ''
    let user = await throttle.guard(request, email, async () => await userOf(email, password))
    if (user === undefined) {
      authCounts.signInFailures++
      throw new InvalidCredentialsError()
    }

    if (passwords.isOutdated(user.passwordHash)) {
      const passwordHash = await passwords.hash(password)
      const { count } = await database.user.updateMany({ where: { id: user.id, passwordHash: user.passwordHash }, data: { passwordHash } })
      // Another sign-in may have done the same meanwhile, and then the other one's hash is as good.
      if (count === 1) user = { ...user, passwordHash }
      else user = await userOf(email, password) ?? user
    }
    const session = await startSession(database, user, lifetimes)
    if (session === undefined) throw new InvalidCredentialsError()
    authCounts.sessions.begun++
    request.userId = user.id
    return {
      user: { id: user.id, email: user.email },
      access_token: signAccessToken(app, user.id, session.sessionId),
      refresh_token: session.refreshToken
    }
  })

  app.post('/auth/refresh', { schema: refreshSchema, config: perAddress('refresh', config.REFRESHES_PER_ADDRESS, () => { authCounts.throttled.refresh++ }) }, async (request) => {
    const { userId, sessionId, refreshToken } = await rotate(database, fieldsOf(request.body).refresh_token, lifetimes, () => { authCounts.sessions.replayed++ })
    authCounts.sessions.refreshed++
    request.userId = userId
    return { access_token: signAccessToken(app, userId, sessionId), refresh_token: refreshToken }
  })

  const sweep = setInterval(() => {
    sweepSessions(database).catch((error: unknown) => app.log.warn({ err: error }, 'ended sessions were not swept; the next try is in an hour'))
  }, HOUR_MS)
  sweep.unref()
  app.addHook('onClose', async () => clearInterval(sweep))
}

/** The routes about the bearer, for the authenticated scope. */
export const sessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/auth/me', { schema: meSchema }, async ({ session }) => {
    return { user: { id: session.userId, email: session.email } }
  })

  app.delete('/auth/sign_out', { schema: signOutSchema }, async (request, reply) => {
    await signOut(app.database, request.session, fieldsOf(request.body).refresh_token)
    app.authCounts.sessions.signed_out++
    return sendNothing(reply.code(204))
  })
}
