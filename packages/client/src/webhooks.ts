import type { components } from './api.ts'
import { iterate, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions,
  type ListOptions } from './responses.ts'

/** A webhook without its secret. */
export type Webhook = components['schemas']['Webhook']
/** A new webhook. Its `secret` is shown only this once. */
export type NewWebhook = components['schemas']['NewWebhook']
export type WebhookFields = components['schemas']['CreateWebhook']
export type WebhookChange = components['schemas']['ChangeWebhook']
/** A message of a webhook, and what became of it. */
export type Delivery = components['schemas']['Delivery']

/** The webhooks of the account. They can't be managed with an API key. */
export interface Webhooks {
  create(fields: WebhookFields, options?: CallOptions): Promise<NewWebhook>
  get(id: string, options?: CallOptions): Promise<Webhook>
  /** Iterates over all webhooks, newest first. */
  list(options?: ListOptions): AsyncGenerator<Webhook, void, undefined>
  /** Changes some fields. `active: true` also sends what has waited. */
  change(id: string, change: WebhookChange, options?: CallOptions): Promise<Webhook>
  delete(id: string, options?: CallOptions): Promise<void>
  /** Returns a new secret. For 24 hours the old one signs, too. */
  replaceSecret(id: string, options?: CallOptions): Promise<string>
  /** Sends a test message. */
  test(id: string, options?: CallOptions): Promise<void>
  /** Sends the current state of every page. Returns the number of messages. */
  sync(id: string, options?: CallOptions): Promise<number>
  /** Iterates over the messages, newest first. */
  deliveries(id: string, options?: ListOptions): AsyncGenerator<Delivery, void, undefined>
  /** Sends the current state of the page that a message is about. */
  redeliver(id: string, deliveryId: string, options?: CallOptions): Promise<void>
}

export function createWebhooks (api: Api): Webhooks {
  const at = (id: string) => ({ params: { path: { id } } })
  return {
    async create (body, { signal } = {}) {
      return (await unwrap(api.POST('/webhooks', { body, signal }))).data
    },
    async get (id, { signal } = {}) {
      return (await unwrap(api.GET('/webhooks/{id}', { ...at(id), signal }))).data
    },
    list: (options = {}) =>
      iterate(
        async ({ signal, ...query }) => await unwrapList(api.GET('/webhooks', { params: { query }, signal })),
        options
      ),
    async change (id, body, { signal } = {}) {
      return (await unwrap(api.PATCH('/webhooks/{id}', { ...at(id), body, signal }))).data
    },
    async delete (id, { signal } = {}) {
      await unwrapDeletion(api.DELETE('/webhooks/{id}', { ...at(id), signal }))
    },
    async replaceSecret (id, { signal } = {}) {
      return (await unwrap(api.POST('/webhooks/{id}/secret', { ...at(id), signal }))).data.secret
    },
    async test (id, { signal } = {}) {
      await unwrap(api.POST('/webhooks/{id}/test', { ...at(id), signal }))
    },
    async sync (id, { signal } = {}) {
      return (await unwrap(api.POST('/webhooks/{id}/sync', { ...at(id), signal }))).data.queued
    },
    deliveries: (id, options = {}) =>
      iterate(
        async ({ signal, ...query }) =>
          await unwrapList(api.GET('/webhooks/{id}/deliveries', { params: { path: { id }, query }, signal })),
        options
      ),
    async redeliver (id, deliveryId, { signal } = {}) {
      const params = { path: { id, delivery_id: deliveryId } }
      await unwrap(api.POST('/webhooks/{id}/deliveries/{delivery_id}/redeliver', { params, signal }))
    }
  }
}
