import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../config.ts'
import { auditRequest } from '../../http/audit.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { attachedProblems } from '../../http/validation.ts'
import { checkNewPasswordFields, fieldsOf } from './new-credentials.ts'
import { changeOwnPassword } from './password-changes.ts'
import { changePasswordSchema } from './password-schemas.ts'

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
    const passwordHash = await passwords.hash(password, app.addressOf(request).counted)
    const hasMail = sendsMail(config)
    const changed = await changeOwnPassword(database, proof, { passwordHash, hasMail })
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
