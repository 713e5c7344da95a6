import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendsMail } from '../../../config.ts'
import { InvalidError, NotFoundError } from '../../../errors.ts'
import { auditRequest } from '../../../http/audit.ts'
import { pageOf, takePage } from '../../../http/pagination.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { parseTime } from '../../../http/time.ts'
import { attachedProblems } from '../../../http/validation.ts'
import { requireConfirmedEmail } from '../access.ts'
import { fieldsOf } from '../new-credentials.ts'
import type { Scope } from '../scopes.ts'
import { createApiKey } from './key.ts'
import { createKey, deleteKey, findOwnKey, hasMaxKeys, listKeys, MAX_KEYS,
  type ApiKeyRow } from './key-repository.ts'
import { createKeySchema, deleteKeySchema, getKeySchema, listKeysSchema } from './schemas.ts'

const TOO_MANY_KEYS = `An account can have ${MAX_KEYS} API keys: delete one that is not needed any more`

/** The routes of the caller's API keys. They need an access token; a key can't make keys. */
export const apiKeyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, credentialCheck, database } = app
  requireConfirmedEmail(app)

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
    auditRequest(request, 'api_key_created', { user: owner.userId, key: created.id, scopes: created.scopes })
    reply.code(201).header('location', app.publicPath(`/api_keys/${created.id}`))
    return { ...keyRecord(created), key }
  })

  app.get('/api_keys', { schema: listKeysSchema }, async ({ caller, query }, reply) => {
    const page = pageOf(query)
    const found = await listKeys(database, caller.userId, page)
    return takePage(reply, '/api_keys', page, found).map(keyRecord)
  })

  app.get('/api_keys/:id', { schema: getKeySchema }, async ({ caller, params }) => {
    const key = await findOwnKey(database, caller.userId, params.id)
    if (key === undefined) throw new NotFoundError()
    return keyRecord(key)
  })

  app.delete('/api_keys/:id', { schema: deleteKeySchema }, async (request, reply) => {
    const { caller: { userId }, params: { id } } = request
    if (!await deleteKey(database, userId, id)) throw new NotFoundError()
    auditRequest(request, 'api_key_deleted', { user: userId, key: id.toLowerCase() })
    return sendWithoutBody(reply.code(204))
  })
}

const keyRecord = ({ id, name, scopes, createdAt, expiresAt, lastUsedAt }: ApiKeyRow) => ({
  id,
  name,
  scopes: [...scopes] as Scope[],
  created_at: createdAt.toISOString(),
  expires_at: expiresAt?.toISOString() ?? null,
  last_used_at: lastUsedAt?.toISOString() ?? null
})
