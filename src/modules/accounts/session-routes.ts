import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../config.ts'
import { InvalidRefreshTokenError, NotFoundError } from '../../errors.ts'
import { auditRequest } from '../../http/audit.ts'
import { pageOf, takePage } from '../../http/pagination.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { endOtherSessions, endSession, listSessions } from './session-list-repository.ts'
import { endOtherSessionsSchema, endSessionSchema, listSessionsSchema, meSchema,
  signOutSchema } from './session-schemas.ts'
import { mailSessionRoutes } from './mail/routes.ts'
import { userRecord } from './schemas.ts'
import { Sessions } from './sessions.ts'

/** The routes of the caller's sessions. They need an access token. */
export const sessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, database } = app
  const sessions = new Sessions(app)
  if (sendsMail(app.config)) await app.register(mailSessionRoutes)

  app.get('/auth/me', { schema: meSchema }, async ({ session }) => {
    return { user: userRecord({ ...session, id: session.userId }) }
  })

  app.delete('/auth/sign_out', {
    schema: signOutSchema,
    schemaErrorFormatter: () => new InvalidRefreshTokenError()
  }, async (request, reply) => {
    await sessions.end(request.session, request.body.refresh_token)
    auditRequest(request, 'signed_out', { user: request.session.userId, session: request.session.id })
    return sendWithoutBody(reply.code(204))
  })

  app.get('/auth/sessions', { schema: listSessionsSchema }, async ({ query, session }, reply) => {
    const page = pageOf(query)
    const found = await listSessions(database, session, page)
    return takePage(reply, '/auth/sessions', page, found).map((
      { id, createdAt, lastUsedAt, userAgent, address }
    ) => ({
      id,
      created_at: createdAt.toISOString(),
      last_used_at: lastUsedAt?.toISOString() ?? null,
      user_agent: userAgent,
      address,
      current: id === session.id
    }))
  })

  app.delete('/auth/sessions', { schema: endOtherSessionsSchema }, async (request, reply) => {
    const { id, userId } = request.session
    const ended = await endOtherSessions(database, request.session)
    authCounts.sessions.ended += ended
    auditRequest(request, 'session_ended', { user: userId, session: id, sessions_ended: ended })
    return sendWithoutBody(reply.code(204))
  })

  app.delete('/auth/sessions/:id', { schema: endSessionSchema }, async (request, reply) => {
    const { id, userId } = request.session
    if (!await endSession(database, userId, request.params.id)) throw new NotFoundError()
    authCounts.sessions.ended++
    const ended = request.params.id.toLowerCase()
    auditRequest(request, 'session_ended', {
      user: userId,
      session: id,
      sessions_ended: 1,
      ended_session: ended
    })
    return sendWithoutBody(reply.code(204))
  })
}
