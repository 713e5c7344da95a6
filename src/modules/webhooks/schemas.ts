import { Type } from '@sinclair/typebox'
import { isUuid } from '../../infra/system/identifiers.ts'
import { PageQuery } from '../../http/pagination.ts'
import { errors, IdParams, NAME_RULES, nothing, nullableTime, response } from '../../http/schemas.ts'
import { PAGE_EVENTS } from '../landing-pages/index.ts'
import { URL_MAX } from './sending/post.ts'
import { MAX_WEBHOOKS } from './webhook-repository.ts'

const ID = '019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b58'
const MAX_PAGES = 100
const EXAMPLE = {
  url: 'https://build.example.com/hooks/landfall',
  name: 'Website build',
  batch_seconds: 60
}

type EventName = typeof PAGE_EVENTS[number]

const fields = {
  url: Type.String({
    maxLength: URL_MAX,
    description:
      'Where messages are sent: an `https://` address without a user name. Only public addresses are ' +
      'reached, and those in `WEBHOOK_NETWORKS`, which may also have `http://`.',
    examples: [EXAMPLE.url]
  }),
  name: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    ...NAME_RULES,
    description: 'For the list of webhooks',
    examples: [EXAMPLE.name]
  }),
  events: Type.Array(Type.Unsafe<EventName>({ type: 'string', enum: PAGE_EVENTS }), {
    minItems: 1,
    description: 'What it gets messages about; by default everything'
  }),
  pages: Type.Unsafe<string[] | null>({
    type: ['array', 'null'],
    items: { type: 'string', check: (id: string) => isUuid(id) ? [] : ['must list ids of pages'] },
    minItems: 1,
    maxItems: MAX_PAGES,
    description: 'The ids of the pages that it gets messages about; null for all'
  }),
  batch_seconds: Type.Integer({
    minimum: 0,
    maximum: 3600,
    description:
      'How long changes are collected for one message about all pages, `pages.changed`; 0 for a message ' +
      'about each page'
  }),
  active: Type.Boolean({ description: 'False while it is paused. Messages then wait.' })
}

const WebhookRecord = Type.Object({
  id: Type.String({ format: 'uuid', examples: [ID] }),
  ...fields,
  paused_reason: Type.Unsafe<'gone' | 'failing' | null>({
    type: ['string', 'null'],
    enum: ['gone', 'failing', null],
    description:
      'Why the service has paused it: `gone` after a 410, `failing` after three days without a success; ' +
      'null if it has not'
  }),
  failing_since: nullableTime('Time of the first failure since the last success; null without one'),
  created_at: Type.String({ format: 'date-time' })
}, { title: 'Webhook' })

const secret = Type.String({
  pattern: '^whsec_[A-Za-z0-9+/]{43}=$',
  description: 'The key of the signatures (Standard Webhooks), which is shown only once',
  examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwOjLvS2LxYqE=']
})
const NewWebhook = Type.Object({ ...WebhookRecord.properties, secret }, { title: 'NewWebhook' })

const { url, name, events, pages, batch_seconds: batchSeconds, active } = fields
const optional = {
  name: Type.Optional(name),
  events: Type.Optional(events),
  pages: Type.Optional(pages),
  batch_seconds: Type.Optional(batchSeconds)
}
const CreateBody = Type.Object({ url, ...optional }, { title: 'CreateWebhook', examples: [EXAMPLE] })
const ChangeBody = Type.Object(
  { url: Type.Optional(url), ...optional, active: Type.Optional(active) },
  { title: 'ChangeWebhook', examples: [{ active: true }] }
)

const nullable = <Type_ extends 'string' | 'integer'>(type: Type_, description: string) =>
  Type.Unsafe<(Type_ extends 'string' ? string : number) | null>({ type: [type, 'null'], description })

const Delivery = Type.Object({
  id: Type.String({ format: 'uuid', description: 'The `webhook-id` of the message' }),
  type: Type.String({ description: 'An event of a page, `pages.changed` or `webhook.test`' }),
  page: Type.Union([
    Type.Object({ id: Type.String({ format: 'uuid' }), public_id: Type.String() }),
    Type.Null()
  ], { description: 'Null in messages that are not about one page' }),
  version: nullable('integer', 'The version of the page; null without a page'),
  merged: Type.Integer({ minimum: 0, description: 'Changes that it stands for besides the last one' }),
  state: Type.Unsafe<'waiting' | 'sending' | 'delivered' | 'failed'>({
    type: 'string',
    enum: ['waiting', 'sending', 'delivered', 'failed']
  }),
  attempts: Type.Integer({ minimum: 0 }),
  last_attempt_at: nullableTime('Time of the last attempt; null before the first'),
  status: nullable('integer', 'Status of the last response; null without one'),
  error: nullable('string', 'Why the last attempt has failed; null if it has not'),
  duration_ms: nullable('integer', 'Duration of the last attempt, in milliseconds'),
  next_attempt_at:
    nullableTime('When it is sent at the earliest; null if it is not, or the webhook is paused'),
  created_at: Type.String({ format: 'date-time', description: 'Time of the first change that it stands for' })
}, { title: 'Delivery' })

export const TOO_MANY_WEBHOOKS =
  `An account can have ${MAX_WEBHOOKS} webhooks: delete one that is not needed any more`
const BAD_URL = { 422: 'Url must be an https:// address' } as const

const DeliveryParams = Type.Object({
  ...IdParams.properties,
  delivery_id: Type.String({ description: 'The `id` of the message', examples: [ID] })
})

export const createSchema = {
  operationId: 'createWebhook',
  summary: 'Create a webhook',
  description:
    'It gets a signed `POST` when readers of a page get something else than before, as soon as no replica ' +
    `answers with the older version. An account can have ${MAX_WEBHOOKS} webhooks.`,
  body: CreateBody,
  response: {
    201: response(NewWebhook, 'The webhook with its secret, which is shown only once', 'Location'),
    ...errors([422], [], BAD_URL)
  }
}
export const listSchema = {
  operationId: 'listWebhooks',
  summary: "List the caller's webhooks, newest first",
  description: 'Without their secrets.',
  querystring: PageQuery,
  response: { 200: response(Type.Array(WebhookRecord), 'The webhooks', 'Link?') }
}
export const getSchema = {
  operationId: 'getWebhook',
  summary: "Read one of the caller's webhooks",
  description: 'Without its secret.',
  params: IdParams,
  response: { 200: response(WebhookRecord, 'The webhook') }
}
export const changeSchema = {
  operationId: 'changeWebhook',
  summary: 'Change a webhook',
  description: 'Fields that are missing stay as they are. `"active": true` also sends what has waited.',
  params: IdParams,
  body: ChangeBody,
  response: {
    200: response(WebhookRecord, 'The webhook'),
    ...errors([422], [], BAD_URL)
  }
}
export const deleteSchema = {
  operationId: 'deleteWebhook',
  summary: 'Delete a webhook',
  description: 'Messages that wait are deleted with it.',
  params: IdParams,
  response: { 204: nothing('Deleted') }
}
export const secretSchema = {
  operationId: 'replaceWebhookSecret',
  summary: 'Replace the secret of a webhook',
  description: 'For 24 hours the old secret signs, too. Then only the new one does.',
  params: IdParams,
  response: {
    200: response(
      Type.Object({ secret }, { title: 'WebhookSecret' }),
      'The new secret, which is shown only once'
    )
  }
}
export const testSchema = {
  operationId: 'testWebhook',
  summary: 'Send a test message',
  description: 'The message `webhook.test` is tried once, also while the webhook is paused.',
  params: IdParams,
  response: { 202: nothing('The message is queued') }
}
export const syncSchema = {
  operationId: 'syncWebhook',
  summary: 'Send the current state of every page',
  description: 'For a receiver that has lost something. With `batch_seconds` it is one message.',
  params: IdParams,
  response: {
    202: response(
      Type.Object({ queued: Type.Integer({ minimum: 0 }) }, { title: 'QueuedMessages' }),
      'The number of messages that are queued'
    )
  }
}
export const listDeliveriesSchema = {
  operationId: 'listDeliveries',
  summary: 'List the messages of a webhook, newest first',
  description: 'Those that were sent are kept for 30 days, and at most 1,000 of each webhook.',
  params: IdParams,
  querystring: PageQuery,
  response: { 200: response(Type.Array(Delivery), 'The messages', 'Link?') }
}
export const redeliverSchema = {
  operationId: 'redeliver',
  summary: 'Send a message again',
  description: 'A new message tells the current state of the page.',
  params: DeliveryParams,
  response: { 202: nothing('The message is queued') }
}
