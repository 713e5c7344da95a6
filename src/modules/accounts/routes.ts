import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { onRequestHookHandler } from 'fastify'
import { sendsMail } from '../../config.ts'
import { InvalidCredentialsError, InvalidRefreshTokenError, SignUpClosedError } from '../../errors.ts'
import { auditRequest } from '../../http/access-log.ts'
import { describeCommonErrors, response, errors, UNKNOWN_PARAMETER, tagRoutes } from '../../http/schemas.ts'
import { attachedProblems } from '../../http/validation.ts'
import { startSweeps } from './cleanup-repository.ts'
import { confirmEmailRoutes } from './email-confirmations.ts'
import { normalizeEmail } from './mail/email-addresses.ts'
import { checkSignUp, hasUser } from './new-credentials.ts'
import { passwordResetRoutes } from './passwords/routes.ts'
import { limitByAddress, startInTurn } from './request-limits.ts'
import { AccessToken, EXAMPLE, EXAMPLE_TOKENS, RefreshBody, SignUpBody, TOO_MANY_FAILURES, User,
  userRecord } from './schemas.ts'
import { beginSession, beginWithAccount, refreshSession } from './sessions/sessions.ts'

const tokenFields = {
  access_token: AccessToken,
  refresh_token: Type.String({
    description:
      'Exchange it once at `/auth/refresh`, or send it to sign out. It expires after 30 days by default.',
    examples: [EXAMPLE_TOKENS.refresh_token]
  })
}
const Tokens = Type.Object(tokenFields, { title: 'Tokens' })
const UserWithTokens = Type.Object({ user: User, ...tokenFields }, { title: 'UserWithTokens' })
const SIGN_IN_EXAMPLE = { user: EXAMPLE }
const SignInBody = Type.Object({
  user: Type.Object({
    email: Type.String({ normalize: normalizeEmail, description: 'Case is ignored' }),
    password: Type.String()
  })
}, { title: 'SignIn', examples: [SIGN_IN_EXAMPLE] })

const signUpSchema = {
  operationId: 'signUp',
  summary: 'Create an account',
  description:
    'Also signs in: the response contains the tokens of the first session. By default, a client address ' +
    'may send 60 of these requests a minute. With `SIGN_UP=closed`, the response is a 403.',
  body: SignUpBody,
  response: {
    201: response(UserWithTokens, 'The account, and the tokens of its first session', 'Location'),
    ...errors([403, 422, 429], [], {
      403: 'Sign-up is closed; ask the operator of this service for an account',
      422: 'Email has already been taken'
    })
  }
}
const signInSchema = {
  operationId: 'signIn',
  summary: 'Sign in',
  description:
    'Starts a new session; existing sessions stay valid. By default, the service responds with a 429 ' +
    'after 10 failures for one account in 15 minutes, or 30 failures from one client address in a ' +
    'minute.',
  body: SignInBody,
  response: {
    200: response(UserWithTokens, 'The account, and the tokens of a new session'),
    ...errors([401, 422, 429], [], {
      401: 'Invalid email or password',
      ...TOO_MANY_FAILURES,
      422: `Request body must look like ${JSON.stringify(SIGN_IN_EXAMPLE)}`
    })
  }
}
const refreshSchema = {
  operationId: 'refresh',
  summary: 'Exchange a refresh token for a new pair of tokens',
  description:
    'A refresh token can be used once. If it is sent several times at once, one request gets new tokens ' +
    'and the others get a 401. If it is sent again more than 10 seconds after its first use, the session ' +
    'ends, because the token may have been stolen. So send one refresh at a time, and store the new ' +
    'tokens.',
  body: RefreshBody,
  response: {
    200: response(Tokens, 'The next tokens of the session'),
    ...errors([401, 422, 429], [], { ...UNKNOWN_PARAMETER, 401: 'Invalid or expired refresh token' })
  }
}

/** Checked in place of malformed credentials, so that all refusals take the same time. */
const NOBODY = { email: '', password: '' }

/** A refresh token that is missing or not a string gets a 401, like an invalid one. */
const schemaErrorFormatter = (): Error => new InvalidRefreshTokenError()

const refuseSignUp: onRequestHookHandler = (_request, _reply, done) => done(new SignUpClosedError())

/** The routes that need no access token. */
export const authRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, credentialCheck, database, passwords } = app
  startSweeps(app)
  tagRoutes(app, 'Accounts')
  describeCommonErrors(app)

  app.post('/auth/sign_up', {
    schema: signUpSchema,
    attachValidation: true,
    onRequest: [
      ...config.SIGN_UP === 'closed' ? [refuseSignUp] : [],
      startInTurn,
      limitByAddress(app, 'sign_up', config.SIGN_UPS_PER_ADDRESS)
    ]
  }, async (request, reply) => {
    const { email, password } = await checkSignUp(database, request.body, attachedProblems(request))
    const passwordHash = await passwords.hash(password, app.addressOf(request).counted)
    const { id, tokens } = await beginWithAccount(request, email, passwordHash)
    app.wakeMailSender()
    reply.code(201).header('location', app.publicPath('/auth/me'))
    return { user: userRecord({ id, email, emailConfirmedAt: null }), ...tokens }
  })

  app.post('/auth/sign_in', {
    schema: signInSchema,
    attachValidation: true,
    onRequest: startInTurn
  }, async (request) => {
    const { validationError, body } = request
    if (validationError !== undefined && !hasUser(body)) throw validationError
    const { email, password } = validationError === undefined ? body.user : NOBODY
    const user = await credentialCheck.attempt(request, email, password)
    const tokens = user && await beginSession(request, user)
    if (user === undefined || tokens === undefined) {
      auditRequest(request, 'sign_in_failed', { email_hash: app.hashEmail(email) })
      throw new InvalidCredentialsError()
    }
    return { user: userRecord(user), ...tokens }
  })

  if (sendsMail(config)) {
    await app.register(passwordResetRoutes)
    await app.register(confirmEmailRoutes)
  }

  app.post('/auth/refresh', {
    schema: refreshSchema,
    schemaErrorFormatter,
    onRequest: limitByAddress(app, 'refresh', config.REFRESHES_PER_ADDRESS)
  }, async (request) => await refreshSession(request, request.body.refresh_token))
}
