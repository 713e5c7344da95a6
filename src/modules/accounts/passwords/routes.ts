import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../../config.ts'
import { InvalidError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { checkWithoutTags } from '../../../http/conditional-requests.ts'
import { errors, nothing } from '../../../http/schemas.ts'
import { attachedProblems } from '../../../http/validation.ts'
import { hashToken } from '../../../infra/system/identifiers.ts'
import { findLinkOwner, requestLink, useLink } from '../link-repository.ts'
import { isEmailAddress, normalizeEmail } from '../mail/email-addresses.ts'
import { checkPasswordFields, fieldsOf } from '../new-credentials.ts'
import { limitByAddress } from '../request-limits.ts'
import { setPassword } from '../revocation-repository.ts'
import { EXAMPLE, EXAMPLE_LINK_TOKEN, INVALID_LINK, LinkToken, newPasswordFields, NEW_PASSWORD_EXAMPLE,
  TOO_MANY_FAILURES } from '../schemas.ts'

const ChangePasswordBody = Type.Object({
  current_password: Type.String({ minLength: 1 }),
  ...newPasswordFields
}, { title: 'ChangePassword', examples: [{ current_password: EXAMPLE.password, ...NEW_PASSWORD_EXAMPLE }] })

const changePasswordSchema = {
  operationId: 'changePassword',
  summary: 'Change the password',
  description:
    'Ends all other sessions of the account and all links that reset its password, and deletes its API ' +
    'keys. Wrong passwords count as failed sign-ins.',
  body: ChangePasswordBody,
  response: {
    204: nothing('The password is changed'),
    ...errors([422, 429], [], { ...TOO_MANY_FAILURES, 422: 'Current password is wrong' })
  }
}

/** The route that changes the caller's password. It needs an access token. */
export const passwordRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, config, credentialCheck, database, passwords } = app
  checkWithoutTags(app, '/auth/password')

  app.put('/auth/password', {
    schema: changePasswordSchema,
    attachValidation: true
  }, async (request, reply) => {
    const { session } = request
    const problems = [...attachedProblems(request), ...checkPasswordFields(session.email, request.body)]
    const current = fieldsOf(request.body).current_password
    const proof = await credentialCheck.confirm(request, current, 'Current password', problems)
    const { password } = request.body
    const newPasswordHash = await passwords.hash(password, app.addressOf(request).counted)
    const hasMail = sendsMail(config)
    const changed = await setPassword(database, proof, { newPasswordHash, hasMail })
    if (changed === undefined) throw await credentialCheck.createRefusal(request, 'Current password')
    app.wakeMailSender()
    const { sessionsEnded } = changed
    authCounts.sessions.ended += sessionsEnded
    auditRequest(request, 'password_changed', { sessions_ended: sessionsEnded })
    return sendWithoutBody(reply.code(204))
  })
}

/** Looked up in place of a malformed address, so that it takes the same way as an unknown one. */
const NOBODY = ''
/** The unit of padded response times. It is much longer than the work that a known address causes. */
const PADDING_MS = 250

const requestResetSchema = {
  operationId: 'requestPasswordReset',
  summary: 'Ask for a link that resets the password',
  description:
    'Sends a mail with the link, if there is an account with the address. The response is the same in ' +
    'any case, and takes the same time. The link leads to a page of the service, is valid for an hour ' +
    'and can be used once; a later link replaces it. An address gets at most three of these mails an ' +
    'hour. By default, a client address may send 30 of these requests a minute.',
  body: Type.Object({
    email: Type.String({ normalize: normalizeEmail, description: 'Case is ignored' })
  }, { title: 'RequestPasswordReset', examples: [{ email: EXAMPLE.email }] }),
  response: {
    202: nothing('If there is such an account, a mail is on its way'),
    ...errors([422, 429], [], { 422: "Email can't be blank" })
  }
}

const resetPasswordSchema = {
  operationId: 'resetPassword',
  summary: 'Choose a new password with the link of a mail',
  description:
    'Confirms the email address, ends all sessions of the account and all links that were mailed before, ' +
    'and deletes its API keys and preview links. A link whose new password is refused can be used again.',
  body: Type.Object({ token: LinkToken, ...newPasswordFields }, {
    title: 'ResetPassword',
    examples: [{ token: EXAMPLE_LINK_TOKEN, ...NEW_PASSWORD_EXAMPLE }]
  }),
  response: { 204: nothing('The password is changed'), ...errors([422], [], { 422: INVALID_LINK }) }
}

/** The routes with which a person resets a forgotten password. Register them only with SMTP_URL. */
export const passwordResetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, config, database, passwords } = app

  app.post('/auth/password_resets', {
    schema: requestResetSchema,
    onRequest: limitByAddress(app, 'password_reset', config.PASSWORD_RESETS_PER_ADDRESS)
  }, async (request, reply) => {
    const { email } = request.body
    await withPaddedTime(async () => {
      const user = await requestLink(database, 'password_reset', isEmailAddress(email) ? email : NOBODY)
      auditRequest(request, 'password_reset_requested', { user, email_hash: app.hashEmail(email) })
    })
    // After the wait: sending would slow the responses to known addresses.
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
      ...checkPasswordFields(owner?.email ?? '', request.body)
    ]
    if (problems.length > 0) throw new InvalidError(problems)
    const newPasswordHash = await passwords.hash(request.body.password, app.addressOf(request).counted)
    const changed = await useLink(database, 'password_reset', tokenHash, { newPasswordHash })
    if (changed === undefined) throw new InvalidError([INVALID_LINK]) // another request was faster
    app.wakeMailSender()
    const { id: user, sessionsEnded } = changed
    authCounts.sessions.ended += sessionsEnded
    auditRequest(request, 'password_reset', { user, sessions_ended: sessionsEnded })
    return sendWithoutBody(reply.code(204))
  })
}

/**
 * Runs an action, and waits until 250 ms or a multiple of that have passed, also if it fails. So the time of
 * the response doesn't show how much there was to do.
 *
 * @throws the error of the action
 */
async function withPaddedTime (action: () => Promise<void>): Promise<void> {
  const startedAt = performance.now()
  try {
    await action()
  } finally {
    const elapsed = performance.now() - startedAt
    await sleep(Math.ceil(elapsed / PADDING_MS) * PADDING_MS - elapsed)
  }
}
