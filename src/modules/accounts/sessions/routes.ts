import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../../config.ts'
import { InvalidRefreshTokenError, NotFoundError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { checkWithoutTags } from '../../../http/conditional-requests.ts'
import { pageOf, PageQuery, takePage } from '../../../http/pagination.ts'
import { recordOf, sendWithoutBody } from '../../../http/responses.ts'
import { response, errors, IdParams, UNKNOWN_PARAMETER, nothing,
  nullableTime } from '../../../http/schemas.ts'
import { requestConfirmationRoutes } from '../email-confirmations.ts'
import { revokeSessions } from '../revocation-repository.ts'
import { CurrentUser, RefreshBody, userRecord } from '../schemas.ts'
import { hasSession, listSessions, revokeSession } from './session-repository.ts'
import { endSession } from './sessions.ts'

const ListedSession = Type.Object({
  id: Type.String({ format: 'uuid', examples: ['019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57'] }),
  created_at: Type.String({ format: 'date-time', description: 'Time of the sign-in' }),
  last_used_at: nullableTime('Time of the last use, to the minute; null before the first'),
  user_agent: Type.Union([Type.String(), Type.Null()], {
    description:
      'The `User-Agent` of the first request of that minute, cut to 256 characters; null without one',
    examples: ['curl/8.14.1']
  }),
  address: Type.Union([Type.String(), Type.Null()], {
    description: 'The client address of that request; null for a session that an older release started',
    examples: ['203.0.113.7']
  }),
  current: Type.Boolean({ description: 'Whether the access token of this request belongs to the session' })
}, { title: 'Session' })

const meSchema = {
  operationId: 'me',
  summary: "Read the caller's account",
  description: 'The account to which the access token belongs.',
  response: { 200: response(CurrentUser, 'The account') }
}

const signOutSchema = {
  operationId: 'signOut',
  summary: 'Sign out',
  description:
    'Ends the sessions of the access token and of the refresh token immediately, on all replicas. If the ' +
    "refresh token is missing, invalid, already used or another account's, the response is a 401 and no " +
    'session ends.',
  body: RefreshBody,
  response: { 204: nothing('Signed out'), ...errors([422], [], { ...UNKNOWN_PARAMETER }) }
}

const listSessionsSchema = {
  operationId: 'listSessions',
  summary: 'List where the caller is signed in, newest first',
  description: 'The sessions of the account that can still be used.',
  querystring: PageQuery,
  response: { 200: response(Type.Array(ListedSession), 'Sessions, newest first', 'Link?') }
}

const endSessionSchema = {
  operationId: 'endSession',
  summary: 'End a session',
  description: 'Its tokens are refused immediately, on all replicas.',
  params: IdParams,
  response: { 204: nothing('The session has ended') }
}

const endOtherSessionsSchema = {
  operationId: 'endOtherSessions',
  summary: 'End all other sessions',
  description: 'Ends all sessions of the account except that of the access token.',
  response: { 204: nothing('The other sessions have ended') }
}

/** The routes of the caller's sessions. They need an access token. */
export const sessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { authCounts, database } = app
  checkWithoutTags(
    app,
    '/auth/sessions',
    async ({ caller, params }) => await hasSession(database, caller.userId, (params as { id: string }).id)
  )
  if (sendsMail(app.config)) await app.register(requestConfirmationRoutes)

  app.get('/auth/me', { schema: meSchema }, async ({ session }) => {
    return { user: userRecord({ ...session, id: session.userId }) }
  })

  app.delete('/auth/sign_out', {
    schema: signOutSchema,
    schemaErrorFormatter: () => new InvalidRefreshTokenError()
  }, async (request, reply) => {
    await endSession(request, request.body.refresh_token, request.session)
    return sendWithoutBody(reply.code(204))
  })

  app.get('/auth/sessions', { schema: listSessionsSchema }, async ({ query, session }, reply) => {
    const page = pageOf(query)
    const found = await listSessions(database, session, page)
    return takePage(reply, '/auth/sessions', page, found).map((row) => ({
      ...recordOf(row),
      current: row.id === session.id
    }))
  })

  app.delete('/auth/sessions', { schema: endOtherSessionsSchema }, async (request, reply) => {
    const { id, userId } = request.session
    const ended = await revokeSessions(database, userId, id)
    authCounts.sessions.ended += ended
    auditRequest(request, 'session_ended', { sessions_ended: ended })
    return sendWithoutBody(reply.code(204))
  })

  app.delete('/auth/sessions/:id', { schema: endSessionSchema }, async (request, reply) => {
    if (!await revokeSession(database, request.caller.userId, request.params.id)) throw new NotFoundError()
    authCounts.sessions.ended++
    const ended = request.params.id.toLowerCase()
    auditRequest(request, 'session_ended', { sessions_ended: 1, ended_session: ended })
    return sendWithoutBody(reply.code(204))
  })
}
