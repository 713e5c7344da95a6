import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../config.ts'
import { auditRequest } from '../../http/audit.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { beginOwnDeletion } from '../accounts/index.ts'
import { deleteAccountSchema } from './schemas.ts'

/** The route that deletes the caller's account. It needs an access token. */
export const accountDeletionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { accountDeletions, config, credentialCheck, database, files } = app

  app.delete('/auth/me', { schema: deleteAccountSchema }, async (request, reply) => {
    const { session } = request
    await files.assertWritable()
    const proof = await credentialCheck.confirm(request, request.body.password, 'Password')
    const hasMail = sendsMail(config)
    if (!await beginOwnDeletion(database, proof, hasMail)) {
      throw await credentialCheck.createRefusal(request, 'Password')
    }
    app.wakeMailSender()
    accountDeletions.counts.begun++
    auditRequest(request, 'account_deleted', {
      user: session.userId,
      session: session.id,
      email_hash: app.hashEmail(session.email)
    })
    await accountDeletions.finish(session.userId)
    return sendWithoutBody(reply.code(204))
  })
}
