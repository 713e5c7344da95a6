import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../config.ts'
import { auditRequest } from '../../http/access-log.ts'
import { checkWithoutTags } from '../../http/conditional-requests.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { errors, nothing } from '../../http/schemas.ts'
import { beginDeletion } from './deletion-repository.ts'

const DeleteAccountBody = Type.Object({
  password: Type.String({ minLength: 1, description: 'The password of the account' })
}, { title: 'DeleteAccount', examples: [{ password: 'correct horse' }] })

const deleteAccountSchema = {
  operationId: 'deleteAccount',
  summary: "Delete the caller's account",
  description:
    'Deletes the account with its pages, their versions and read counts, its assets and their files, its ' +
    'sessions and API keys. With the response, the account and its tokens can no longer be used, and pages ' +
    'are a 404, on all replicas. What takes longer than two seconds, such as the removal of thousands of ' +
    'files, goes on behind it. The ' +
    "email address is free for a new account. This can't be undone. Wrong passwords count as failed " +
    'sign-ins.',
  body: DeleteAccountBody,
  response: {
    204: nothing('The account is deleted'),
    ...errors([422, 429, 507], [], {
      422: 'Password is wrong',
      429: 'Too many failed sign-ins, try again in 34 seconds'
    })
  }
}

/** The route that deletes the caller's account. It needs an access token. */
export const accountDeletionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { accountDeletions, config, credentialCheck, database, files } = app
  checkWithoutTags(app, '/auth/me')

  app.delete('/auth/me', { schema: deleteAccountSchema }, async (request, reply) => {
    const { session } = request
    await files.assertWritable()
    const proof = await credentialCheck.confirm(request, request.body.password, 'Password')
    const hasMail = sendsMail(config)
    if (await beginDeletion(database, proof, hasMail) === undefined) {
      throw await credentialCheck.createRefusal(request, 'Password')
    }
    app.wakeMailSender()
    accountDeletions.counts.begun++
    auditRequest(request, 'account_deleted', { email_hash: app.hashEmail(session.email) })
    await accountDeletions.start(session.userId)
    return sendWithoutBody(reply.code(204))
  })
}
