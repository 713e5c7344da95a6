import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { onRequestHookHandler } from 'fastify'
import { sendsMail } from '../../config.ts'
import { InvalidCredentialsError, InvalidRefreshTokenError, SignUpClosedError } from '../../errors.ts'
import { auditRequest } from '../../http/audit.ts'
import { attachedProblems } from '../../http/validation.ts'
import { limitByAddress } from './address-limits.ts'
import { startSweeps } from './cleanup.ts'
import { checkSignUp, hasUser } from './new-credentials.ts'
import { mailRoutes } from './mail/routes.ts'
import { refreshSchema, signInSchema, signUpSchema, userRecord } from './schemas.ts'
import { recordSession, Sessions } from './sessions.ts'
import { limitStarts } from './start-limiter.ts'

/** Sign-ins and sign-ups that start in one turn of the event loop. */
const STARTS_PER_TURN = 2
/** Checked in place of malformed credentials, so that all refusals take the same time. */
const NOBODY = { email: '', password: '' }

/** A refresh token that is missing or not a string gets a 401, like an invalid one. */
const schemaErrorFormatter = (): Error => new InvalidRefreshTokenError()

const refuseSignUp: onRequestHookHandler = (_request, _reply, done) => done(new SignUpClosedError())

/** The routes that need no access token. */
export const authRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, credentialCheck, database, passwords } = app
  const sessions = new Sessions(app)
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
    const passwordHash = await passwords.hash(password, app.addressOf(request).counted)
    const session = await sessions.startWithAccount(request, email, passwordHash)
    const { userId, tokens } = session
    recordSession(request, session, 'signed_up', email)
    app.wakeMailSender()
    reply.code(201).header('location', app.publicPath('/auth/me'))
    return { user: userRecord({ id: userId, email, emailConfirmedAt: null }), ...tokens }
  })

  app.post('/auth/sign_in', {
    schema: signInSchema,
    attachValidation: true,
    onRequest: limitStartsPerTurn
  }, async (request) => {
    const { validationError, body } = request
    if (validationError !== undefined && !hasUser(body)) throw validationError
    const { email, password } = validationError === undefined ? body.user : NOBODY
    const user = await credentialCheck.attempt(request, email, password)
    const session = user && await sessions.start(request, user)
    if (user === undefined || session === undefined) {
      auditRequest(request, 'sign_in_failed', { email_hash: app.hashEmail(email) })
      throw new InvalidCredentialsError()
    }
    recordSession(request, session, 'signed_in', email)
    return { user: userRecord(user), ...session.tokens }
  })

  if (sendsMail(config)) await app.register(mailRoutes)

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
