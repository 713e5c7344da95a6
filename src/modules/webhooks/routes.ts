import * as schemas from './schemas.ts'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { InvalidError, NotFoundError, RetryLaterError } from '../../errors.ts'
import { auditRequest } from '../../http/access-log.ts'
import { checkWithoutTags } from '../../http/conditional-requests.ts'
import { pageOf, takePage } from '../../http/pagination.ts'
import { recordOf, sendWithoutBody } from '../../http/responses.ts'
import { tagRoutes } from '../../http/schemas.ts'
import { attachedProblems } from '../../http/validation.ts'
import { deriveSecret, isUuid } from '../../infra/system/identifiers.ts'
import type { AuditEvent } from '../../infra/telemetry/audit.ts'
import { KeyedSemaphore } from '../../infra/system/semaphore.ts'
import type { OutboxMessage, Webhook } from '../../infra/postgres/generated/prisma/client.ts'
import { requireConfirmedEmail, runInTurn } from '../accounts/index.ts'
import { PAGE_EVENTS } from '../landing-pages/index.ts'
import { allowedAddresses, checkUrl } from './sending/post.ts'
import { formatSecret } from './sending/message.ts'
import { changeWebhook, createWebhook, deleteWebhook, findMessage, findWebhook, listMessages, listWebhooks,
  queueAgain, queueAllPages, queueTest, replaceSecret } from './webhook-repository.ts'

/** Requests of one account to send all pages that may wait for another one. */
const MAX_WAITING_SYNCS = 10

interface Body {
  readonly name?: string | null
  readonly events?: readonly string[]
  readonly pages?: readonly string[] | null
  readonly batch_seconds?: number
}

/** The routes of the caller's webhooks. They need an access token. */
export const webhookRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config: { WEBHOOK_NETWORKS: networks }, database } = app
  const isAllowed = allowedAddresses(networks)
  tagRoutes(app, 'Webhooks')
  requireConfirmedEmail(app)
  checkWithoutTags(app, '/webhooks', async (request) => await findOwnWebhook(request) !== null)
  await app.register(deliveryRoutes)

  /** @throws {InvalidError} 422 with all problems of a body with a URL */
  const checkBody = (request: FastifyRequest): void => {
    const { url } = (request.body ?? {}) as { url?: unknown }
    const ofUrl = typeof url === 'string' ? checkUrl(url, isAllowed, networks.length > 0) : []
    const problems = [...attachedProblems(request), ...ofUrl.map((problem) => `Url ${problem}`)]
    if (problems.length > 0) throw new InvalidError(problems)
  }

  app.post('/webhooks', { schema: schemas.createSchema, attachValidation: true }, async (request, reply) => {
    checkBody(request)
    const created = await createWebhook(database, request.caller.userId, {
      events: [...PAGE_EVENTS],
      ...fieldsOf(request.body),
      url: request.body.url
    })
    if (created === undefined) throw new InvalidError([schemas.TOO_MANY_WEBHOOKS])
    audit(request, 'webhook_created', created)
    reply.code(201).header('location', app.publicPath(`/webhooks/${created.id}`))
    return { ...webhookRecord(created), secret: secretOf(app.secretsKey, created) }
  })

  app.get('/webhooks', { schema: schemas.listSchema }, async ({ caller, query }, reply) => {
    const page = pageOf(query)
    const found = await listWebhooks(database, caller.userId, page)
    return (takePage(reply, '/webhooks', page, found)).map(webhookRecord)
  })

  app.get(
    '/webhooks/:id',
    { schema: schemas.getSchema },
    async (request) => webhookRecord(await ownWebhook(request))
  )

  app.patch('/webhooks/:id', {
    schema: schemas.changeSchema,
    attachValidation: true
  }, async (request) => {
    const webhook = await ownWebhook(request)
    checkBody(request)
    const { url, active } = request.body
    const changed = await changeWebhook(database, webhook, {
      ...fieldsOf(request.body),
      ...url !== undefined && { url },
      ...active !== undefined && { active }
    })
    if (changed === undefined) throw new NotFoundError()
    audit(request, 'webhook_changed', changed)
    app.wakeMessageSender()
    return webhookRecord(changed)
  })

  app.delete('/webhooks/:id', { schema: schemas.deleteSchema }, async (request, reply) => {
    const webhook = await ownWebhook(request)
    if (!await deleteWebhook(database, webhook)) throw new NotFoundError()
    audit(request, 'webhook_deleted', webhook)
    return sendWithoutBody(reply.code(204))
  })

  app.post('/webhooks/:id/secret', { schema: schemas.secretSchema }, async (request) => {
    const changed = await replaceSecret(database, await ownWebhook(request))
    if (changed === undefined) throw new NotFoundError()
    audit(request, 'webhook_secret_replaced', changed)
    return { secret: secretOf(app.secretsKey, changed) }
  })
}

/** What was sent, and what is to be sent. */
const deliveryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database, redisClient } = app
  /** Whether no other process serves readers. */
  const isAlone = redisClient === undefined
  // Each reads all pages of an account.
  const syncs = new KeyedSemaphore<number>({
    maxRunning: 1,
    maxWaiting: MAX_WAITING_SYNCS,
    createRefusal: () => new RetryLaterError(503, 'The pages are being sent already, try again shortly', 2)
  })

  app.post('/webhooks/:id/test', { schema: schemas.testSchema }, async (request, reply) => {
    await queueTest(database, await ownWebhook(request))
    app.wakeMessageSender()
    return sendWithoutBody(reply.code(202))
  })

  app.post('/webhooks/:id/sync', { schema: schemas.syncSchema }, async (request, reply) => {
    const webhook = await ownWebhook(request)
    const queued = await runInTurn(
      syncs,
      request,
      async () => await queueAllPages(database, webhook, isAlone)
    )
    app.wakeMessageSender()
    reply.code(202)
    return { queued }
  })

  app.get('/webhooks/:id/deliveries', { schema: schemas.listDeliveriesSchema }, async (request, reply) => {
    const { id } = await ownWebhook(request)
    const page = pageOf(request.query)
    const found = await listMessages(database, id, page)
    return takePage(reply, `/webhooks/${id}/deliveries`, page, found).map(deliveryRecord)
  })

  app.post('/webhooks/:id/deliveries/:delivery_id/redeliver', {
    schema: schemas.redeliverSchema
  }, async (request, reply) => {
    const webhook = await ownWebhook(request)
    const { delivery_id: deliveryId } = request.params
    const message = isUuid(deliveryId) ? await findMessage(database, webhook.id, deliveryId) : null
    if (message === null) throw new NotFoundError()
    await queueAgain(database, webhook, message, isAlone)
    app.wakeMessageSender()
    return sendWithoutBody(reply.code(202))
  })
}

const audit = (request: FastifyRequest, event: AuditEvent, { id, userId }: Webhook): void =>
  auditRequest(request, event, { user: userId, webhook: id })

/** Returns the webhook that a request names; null if there is none. */
async function findOwnWebhook ({ server, caller, params }: FastifyRequest): Promise<Webhook | null> {
  const { id } = params as { id: string }
  return isUuid(id) ? await findWebhook(server.database, caller.userId, id) : null
}

/** Returns the webhook that a request names. @throws {NotFoundError} 404 */
async function ownWebhook (request: FastifyRequest): Promise<Webhook> {
  const webhook = await findOwnWebhook(request)
  if (webhook === null) throw new NotFoundError()
  return webhook
}

const fieldsOf = ({ name, events, pages, batch_seconds: batchSeconds }: Body) => ({
  ...name !== undefined && { name },
  ...events !== undefined && { events: [...new Set(events)] },
  ...pages !== undefined && { pages: pages === null ? [] : [...new Set(pages)] },
  ...batchSeconds !== undefined && { batchSeconds }
})

const secretOf = (key: string, { id, generation }: Webhook): string =>
  formatSecret(deriveSecret(key, 'webhook', id, generation))

const webhookRecord = (webhook: Webhook) => ({
  ...recordOf(webhook),
  events: webhook.events as (typeof PAGE_EVENTS[number])[],
  pages: webhook.pages.length === 0 ? null : webhook.pages,
  paused_reason: webhook.pausedReason as 'gone' | 'failing' | null
})

const deliveryRecord = (message: OutboxMessage) => ({
  ...recordOf(message),
  page: message.publicId === null ? null : { id: message.pageId, public_id: message.publicId },
  state: message.state as 'waiting' | 'sending' | 'delivered' | 'failed',
  next_attempt_at: message.state === 'waiting' ? message.dueAt?.toISOString() ?? null : null
})
