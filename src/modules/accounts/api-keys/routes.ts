import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { sendsMail } from '../../../config.ts'
import { InvalidError, NotFoundError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { checkWithoutTags } from '../../../http/conditional-requests.ts'
import { pageOf, PageQuery, takePage } from '../../../http/pagination.ts'
import { recordOf, sendWithoutBody } from '../../../http/responses.ts'
import { response, errors, IdParams, NAME_RULES, nothing, nullableTime,
  tagRoutes } from '../../../http/schemas.ts'
import { parseTime } from '../../../http/time.ts'
import { attachedProblems } from '../../../http/validation.ts'
import { requireConfirmedEmail } from '../authenticate.ts'
import { fieldsOf } from '../new-credentials.ts'
import { TOO_MANY_FAILURES } from '../schemas.ts'
import { createApiKey, SCOPES, createKey, deleteKey, findOwnKey, hasMaxKeys, listKeys, MAX_KEYS, type Scope,
  type ApiKeyRow } from './key-repository.ts'

const ID = '019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57'
const EXAMPLE = {
  name: 'Nightly build',
  scopes: ['pages:read', 'pages:write'],
  current_password: 'correct horse'
}

function checkExpiry (text: string): string[] {
  const time = parseTime(text)
  if (time === undefined) return ['must be a time such as 2027-01-31T08:00:00Z']
  return time > Date.now() ? [] : ['must be in the future']
}

const Scopes = Type.Array(Type.Unsafe<Scope>({ type: 'string', enum: SCOPES }), {
  description: 'What the key gives access to',
  examples: [EXAMPLE.scopes]
})
const fields = {
  id: Type.String({ format: 'uuid', examples: [ID] }),
  name: Type.String({ examples: [EXAMPLE.name] }),
  scopes: Scopes,
  created_at: Type.String({ format: 'date-time' }),
  expires_at: nullableTime('Time from which the key is refused; null for never'),
  last_used_at: nullableTime('Time of the last use, to the minute; null before the first')
}
const ApiKey = Type.Object(fields, { title: 'ApiKey' })
const NewApiKey = Type.Object({
  ...fields,
  key: Type.String({
    pattern: '^lf_[0-9A-Za-z]{46}$',
    description: 'The key, which is shown only once. Send it as `Authorization: Bearer lf_…`.',
    examples: ['lf_3kTMd92iV0aQbYwRr7uXnH5sLzJcE8pG1fKo4tDqP2FzW6']
  })
}, { title: 'NewApiKey' })

const CreateBody = Type.Object({
  name: Type.String({
    ...NAME_RULES,
    description: 'For the list of keys, mails and the authors of versions'
  }),
  scopes: Type.Array(Type.Unsafe<Scope>({ enum: SCOPES }), {
    minItems: 1,
    description: 'At least one. A scope to write does not include the scope to read.'
  }),
  expires_at: Type.Optional(Type.Unsafe<string | null>({
    type: ['string', 'null'],
    check: checkExpiry,
    description: 'Time from which the key is refused (RFC 3339); null or missing for never'
  })),
  current_password: Type.String({ minLength: 1 })
}, { title: 'CreateApiKey', examples: [EXAMPLE] })

/** The message of a 403 with REQUIRE_CONFIRMED_EMAIL. */
const UNCONFIRMED = {
  403: 'Confirm your email address first: POST /auth/email_confirmations mails another link'
} as const

const createKeySchema = {
  operationId: 'createApiKey',
  summary: 'Create an API key',
  description:
    'A key lets a program manage pages and assets without a sign-in, until it is deleted or expires. It ' +
    'never works for the account itself. With `assets:read` or `assets:write` it also sees the ids and ' +
    'public ids of pages that use a file. An account can have 100 keys that have not expired. Wrong ' +
    'passwords count as failed sign-ins.',
  body: CreateBody,
  response: {
    201: response(NewApiKey, 'The key, which is shown only once', 'Location'),
    ...errors([403, 422, 429], [], { ...UNCONFIRMED, ...TOO_MANY_FAILURES, 422: 'Current password is wrong' })
  }
}

const listKeysSchema = {
  operationId: 'listApiKeys',
  summary: "List the caller's API keys, newest first",
  description: 'Without the keys themselves. Expired keys are included.',
  querystring: PageQuery,
  response: { 200: response(Type.Array(ApiKey), 'API keys, newest first', 'Link?') }
}

const getKeySchema = {
  operationId: 'getApiKey',
  summary: "Read one of the caller's API keys",
  description: 'Without the key itself.',
  params: IdParams,
  response: { 200: response(ApiKey, 'The API key') }
}

const deleteKeySchema = {
  operationId: 'deleteApiKey',
  summary: 'Delete an API key',
  description: 'The key is refused immediately, on all replicas.',
  params: IdParams,
  response: { 204: nothing('Deleted'), ...errors([403], [], { ...UNCONFIRMED }) }
}

const TOO_MANY_KEYS = `An account can have ${MAX_KEYS} API keys: delete one that is not needed any more`

/** The routes of the caller's API keys. They need an access token; a key can't make keys. */
export const apiKeyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, credentialCheck, database } = app
  tagRoutes(app, 'API keys')
  requireConfirmedEmail(app)
  const find = async ({ caller, params }: FastifyRequest) =>
    await findOwnKey(database, caller.userId, (params as { id: string }).id)
  checkWithoutTags(app, '/api_keys', async (request) => await find(request) !== undefined)

  app.post('/api_keys', { schema: createKeySchema, attachValidation: true }, async (request, reply) => {
    const problems = [...attachedProblems(request)]
    if (await hasMaxKeys(database, request.caller.userId)) problems.push(TOO_MANY_KEYS)
    const current = fieldsOf(request.body).current_password
    const owner = await credentialCheck.confirm(request, current, 'Current password', problems)
    const { name, scopes, expires_at: expiry } = request.body
    const expiresAt = expiry == null ? null : new Date(parseTime(expiry) as number)
    const key = createApiKey()
    const wanted = { name, scopes: [...new Set(scopes)], key, expiresAt }
    const created = await createKey(database, owner, wanted, sendsMail(config))
    if (created === undefined) throw await credentialCheck.createRefusal(request, 'Current password')
    if (created === 'too many') throw new InvalidError([TOO_MANY_KEYS])
    app.wakeMailSender()
    auditRequest(request, 'api_key_created', { key: created.id, scopes: created.scopes })
    reply.code(201).header('location', app.publicPath(`/api_keys/${created.id}`))
    return { ...keyRecord(created), key }
  })

  app.get('/api_keys', { schema: listKeysSchema }, async ({ caller, query }, reply) => {
    const page = pageOf(query)
    const found = await listKeys(database, caller.userId, page)
    return takePage(reply, '/api_keys', page, found).map(keyRecord)
  })

  app.get('/api_keys/:id', { schema: getKeySchema }, async (request) => {
    const key = await find(request)
    if (key === undefined) throw new NotFoundError()
    return keyRecord(key)
  })

  app.delete('/api_keys/:id', { schema: deleteKeySchema }, async (request, reply) => {
    const { caller: { userId }, params: { id } } = request
    if (!await deleteKey(database, userId, id)) throw new NotFoundError()
    auditRequest(request, 'api_key_deleted', { key: id.toLowerCase() })
    return sendWithoutBody(reply.code(204))
  })
}

const keyRecord = (key: ApiKeyRow) => ({ ...recordOf(key), scopes: key.scopes as Scope[] })
