import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { onRequestAsyncHookHandler } from 'fastify'
import { InvalidError } from '../../../errors.ts'
import { auditRequest } from '../../../http/audit.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { attachedProblems } from '../../../http/validation.ts'
import { limitByAddress } from '../address-limits.ts'
import { sessionOf } from '../authenticate.ts'
import { isEmailAddress } from '../credentials.ts'
import { checkNewPasswordFields, fieldsOf } from '../new-credentials.ts'
import { resetPassword } from '../password-changes.ts'
import { hashToken } from '../random-tokens.ts'
import type { Session } from '../session-repository.ts'
import { inEqualTime } from './equal-time.ts'
import { confirmEmail, findLinkOwner, requestConfirmation, requestReset } from './link-repository.ts'
import { confirmEmailSchema, INVALID_LINK, requestConfirmationSchema, requestResetSchema,
  resetPasswordSchema } from './schemas.ts'

/** Looked up in place of a malformed address, so that it takes the same way as an unknown one. */
const NOBODY = ''

/** Sets the session of a request that has an access token. An invalid one is refused. */
const findSession: onRequestAsyncHookHandler = async function (request) {
  if (request.headers.authorization !== undefined) request.session = await sessionOf(this, request)
}

/** The routes of mailed links that need no access token. Register them only with SMTP_URL. */
export const mailRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, config, database, passwords } = app

  app.post('/auth/password_resets', {
    schema: requestResetSchema,
    onRequest: limitByAddress(app, 'password_reset', config.PASSWORD_RESETS_PER_ADDRESS)
  }, async (request, reply) => {
    const { email } = request.body
    await inEqualTime(async () => {
      const user = await requestReset(database, isEmailAddress(email) ? email : NOBODY)
      auditRequest(request, 'password_reset_requested', { user, email_hash: app.hashEmail(email) })
    })
    // After the wait: sending would slow the answers to known addresses.
    app.wakeMailSender()
    return sendWithoutBody(reply.code(202))
  })

  app.put('/auth/password_resets', {
    schema: resetPasswordSchema,
    attachValidation: true
  }, async (request, reply) => {
    const { token: given } = fieldsOf(request.body)
    const token = typeof given === 'string' ? given : ''
    const tokenHash = hashToken(token)
    const owner = token === '' ? undefined : await findLinkOwner(database, 'password_reset', tokenHash)
    const problems = [
      ...attachedProblems(request),
      ...token !== '' && owner === undefined ? [INVALID_LINK] : [],
      ...checkNewPasswordFields(owner?.email ?? '', request.body)
    ]
    if (problems.length > 0) throw new InvalidError(problems)
    const passwordHash = await passwords.hash(request.body.password, app.addressOf(request).counted)
    const changed = await resetPassword(database, tokenHash, passwordHash)
    if (changed === undefined) throw new InvalidError([INVALID_LINK]) // another request was faster
    app.wakeMailSender()
    const { id: user, sessionsEnded } = changed
    authCounts.sessions.ended += sessionsEnded
    auditRequest(request, 'password_reset', { user, sessions_ended: sessionsEnded })
    return sendWithoutBody(reply.code(204))
  })

  app.put('/auth/email_confirmations', {
    schema: confirmEmailSchema,
    onRequest: findSession
  }, async (request, reply) => {
    const session = request.session as Session | null
    const confirmed = await confirmEmail(database, hashToken(request.body.token), session?.id)
    if (confirmed === undefined) throw new InvalidError([INVALID_LINK])
    const { id: user, sessionsEnded } = confirmed
    authCounts.sessions.ended += sessionsEnded
    auditRequest(request, 'email_confirmed', { user, session: session?.id, sessions_ended: sessionsEnded })
    return sendWithoutBody(reply.code(204))
  })
}

/** The route of mailed links that needs an access token. Register it only with SMTP_URL. */
export const mailSessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/auth/email_confirmations', { schema: requestConfirmationSchema }, async (request, reply) => {
    const { userId: user, id: session } = request.session
    await requestConfirmation(app.database, user)
    app.wakeMailSender()
    auditRequest(request, 'email_confirmation_requested', { user, session })
    return sendWithoutBody(reply.code(202))
  })
}
