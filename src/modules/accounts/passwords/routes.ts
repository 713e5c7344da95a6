import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../../config.ts'
import { auditRequest } from '../../../http/audit.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { bearer, BODY_ERRORS, errors, MALFORMED_JSON, nothing } from '../../../http/schemas.ts'
import { attachedProblems } from '../../../http/validation.ts'
import { checkNewPasswordFields, fieldsOf } from '../new-credentials.ts'
import { EXAMPLE, newPasswordFields, NEW_PASSWORD_EXAMPLE, TOO_MANY_FAILURES } from '../schemas.ts'
import { setPassword } from './password-repository.ts'

const ChangePasswordBody = Type.Object({
  current_password: Type.String({ minLength: 1 }),
  ...newPasswordFields
}, {
  title: 'ChangePassword',
  examples: [{
    current_password: EXAMPLE.password,
    ...NEW_PASSWORD_EXAMPLE
  }]
})

const changePasswordSchema = {
  operationId: 'changePassword',
  tags: ['Accounts'],
  summary: 'Change the password',
  description:
    'Ends all other sessions of the account and all links that reset its password, and deletes its API ' +
    'keys. Wrong passwords count as failed sign-ins.',
  security: bearer,
  body: ChangePasswordBody,
  response: {
    204: nothing('The password is changed'),
    ...errors([...BODY_ERRORS, 401, 422, 429, 500, 503], [], {
      ...MALFORMED_JSON,
      ...TOO_MANY_FAILURES,
      422: 'Current password is wrong'
    })
  }
}

/** The route that changes the caller's password. It needs an access token. */
export const passwordRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, config, credentialCheck, database, passwords } = app

  app.put('/auth/password', {
    schema: changePasswordSchema,
    attachValidation: true
  }, async (request, reply) => {
    const { session } = request
    const problems = [...attachedProblems(request), ...checkNewPasswordFields(session.email, request.body)]
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
    auditRequest(request, 'password_changed', {
      user: session.userId,
      session: session.id,
      sessions_ended: sessionsEnded
    })
    return sendWithoutBody(reply.code(204))
  })
}
