import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { onRequestAsyncHookHandler } from 'fastify'
import { InvalidError } from '../../errors.ts'
import { auditRequest } from '../../http/access-log.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { bearer, errors, nothing } from '../../http/schemas.ts'
import { hashToken } from '../../infra/system/identifiers.ts'
import { sessionOf } from './authenticate.ts'
import { requestLink, useLink } from './link-repository.ts'
import { EXAMPLE_LINK_TOKEN, INVALID_LINK, LinkToken } from './schemas.ts'
import type { Session } from './sessions/session-repository.ts'

const requestConfirmationSchema = {
  operationId: 'requestEmailConfirmation',
  summary: 'Ask for another link that confirms the email address',
  description:
    'Sign-up sends the first one. The link is valid for an hour and can be used once; a later link ' +
    'replaces it. At most three of these mails are sent in an hour, and none if the address is ' +
    'confirmed; the response is the same in any case.',
  response: {
    202: nothing('A mail is on its way, unless the address is confirmed or got three in this hour')
  }
}

const confirmEmailSchema = {
  operationId: 'confirmEmail',
  summary: 'Confirm the email address with the link of a mail',
  description:
    'Ends all sessions of the account and deletes its API keys and preview links, because somebody else ' +
    'may have signed up with the address. Only the session whose access token is sent stays, if it belongs ' +
    'to the account. The access token is optional, but must be valid.',
  security: [{}, ...bearer],
  body: Type.Object({ token: LinkToken }, {
    title: 'ConfirmEmail',
    examples: [{ token: EXAMPLE_LINK_TOKEN }]
  }),
  response: { 204: nothing('The address is confirmed'), ...errors([401, 422], [], { 422: INVALID_LINK }) }
}

/** Sets the session of a request that has an access token. An invalid one is refused. */
const findSession: onRequestAsyncHookHandler = async function (request) {
  if (request.headers.authorization !== undefined) request.session = await sessionOf(this, request)
}

/** The route that uses a mailed link, with or without an access token. Register it only with SMTP_URL. */
export const confirmEmailRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, database } = app

  app.put('/auth/email_confirmations', {
    schema: confirmEmailSchema,
    onRequest: findSession
  }, async (request, reply) => {
    const session = request.session as Session | null
    const tokenHash = hashToken(request.body.token)
    const options = { keptSession: session?.id ?? null }
    const confirmed = await useLink(database, 'email_confirmation', tokenHash, options)
    if (confirmed === undefined) throw new InvalidError([INVALID_LINK])
    const { id: user, sessionsEnded } = confirmed
    authCounts.sessions.ended += sessionsEnded
    auditRequest(request, 'email_confirmed', { user, sessions_ended: sessionsEnded })
    return sendWithoutBody(reply.code(204))
  })
}

/** The route that asks for a link. It needs an access token. Register it only with SMTP_URL. */
export const requestConfirmationRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/auth/email_confirmations', { schema: requestConfirmationSchema }, async (request, reply) => {
    await requestLink(app.database, 'email_confirmation', request.session.email)
    app.wakeMailSender()
    auditRequest(request, 'email_confirmation_requested')
    return sendWithoutBody(reply.code(202))
  })
}
