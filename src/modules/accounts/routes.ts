import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { InvalidCredentialsError, InvalidRefreshTokenError, SignUpClosedError } from '../../errors.ts'
import { auditRequest } from '../../http/audit.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { attachedProblems } from '../../http/validation.ts'
import { limitByAddress } from './address-limits.ts'
import { checkSignUp, hasUser } from './new-account.ts'
import { meSchema, refreshSchema, signInSchema, signOutSchema, signUpSchema } from './schemas.ts'
import { SignIn } from './sign-in.ts'
import { Sessions, startSweeps, type IssuedSession } from './sessions.ts'
import { limitStarts } from './start-limiter.ts'

/** Sign-ins and sign-ups that start in one turn of the event loop. */
const STARTS_PER_TURN = 2
/** Checked in place of malformed credentials, so that all refusals take the same time. */
const NOBODY = { email: '', password: '' }

/** A refresh token that is missing or not a string gets a 401, like an invalid one. */
const schemaErrorFormatter = (): Error => new InvalidRefreshTokenError()

const refuseSignUp: onRequestHookHandler = (_request, _reply, done) => done(new SignUpClosedError())

/** Adds a new session to the access log and to the audit trail. */
function recordSession (
  request: FastifyRequest,
  { userId, sessionId }: IssuedSession,
  event: 'signed_up' | 'signed_in' | 'session_refreshed',
  email?: string
): void {
  request.userId = userId
  request.sessionId = sessionId
  auditRequest(request, event, {
    user: userId,
    session: sessionId,
    email_hash: email === undefined ? undefined : request.server.hashEmail(email)
  })
}

/** The routes that need no access token. */
export const authRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, database, passwords } = app
  const sessions = new Sessions(app)
  const signIn = new SignIn(app)
  const limitStartsPerTurn = limitStarts(STARTS_PER_TURN)
  startSweeps(app)

  app.post('/auth/sign_up', {
    schema: signUpSchema,
    attachValidation: true,
    onRequest: [
      ...config.SIGN_UP === 'closed' ? [refuseSignUp] : [],
      limitStartsPerTurn,
      limitByAddress(app, 'sign_up', config.SIGN_UPS_PER_ADDRESS)
    ]
  }, async (request, reply) => {
    const { email, password } = await checkSignUp(database, request.body, attachedProblems(request))
    const session = await sessions.startWithAccount(email, await passwords.hash(password))
    const { userId, tokens } = session
    recordSession(request, session, 'signed_up', email)
    reply.code(201).header('location', app.publicPath('/auth/me'))
    return { user: { id: userId, email }, ...tokens }
  })

  app.post('/auth/sign_in', {
    schema: signInSchema,
    attachValidation: true,
    onRequest: limitStartsPerTurn
  }, async (request) => {
    const { validationError, body } = request
    if (validationError !== undefined && !hasUser(body)) throw validationError
    const { email, password } = validationError === undefined ? body.user : NOBODY
    const user = await signIn.attempt(request, email, password)
    const session = user && await sessions.start(user)
    if (session === undefined) {
      auditRequest(request, 'sign_in_failed', { email_hash: app.hashEmail(email) })
      throw new InvalidCredentialsError()
    }
    recordSession(request, session, 'signed_in', email)
    return { user: { id: session.userId, email }, ...session.tokens }
  })

  app.post('/auth/refresh', {
    schema: refreshSchema,
    schemaErrorFormatter,
    onRequest: limitByAddress(app, 'refresh', config.REFRESHES_PER_ADDRESS)
  }, async (request) => {
    const session = await sessions.refresh(request, request.body.refresh_token)
    recordSession(request, session, 'session_refreshed')
    return session.tokens
  })
}

/** The routes that need an access token. Register them in the authenticated scope. */
export const sessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const sessions = new Sessions(app)

  app.get('/auth/me', { schema: meSchema }, async ({ session }) => {
    return { user: { id: session.userId, email: session.email } }
  })

  app.delete('/auth/sign_out', { schema: signOutSchema, schemaErrorFormatter }, async (request, reply) => {
    await sessions.end(request.session, request.body.refresh_token)
    auditRequest(request, 'signed_out', { user: request.session.userId, session: request.session.id })
    return sendWithoutBody(reply.code(204))
  })
}
