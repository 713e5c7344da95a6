import type { Webhook } from '../../infra/postgres/generated/prisma/client.ts'
import { unlessMissing, unlessTaken, type Database } from '../../infra/postgres/database.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import type { Page } from '../../http/pagination.ts'

/** The most webhooks of an account. */
export const MAX_WEBHOOKS = 10
/** How long the secret before signs after a change, too. */
const BOTH_SIGN_MS = 24 * 60 * 60 * 1000

/** What an owner decides about a webhook. */
export type WebhookFields = Partial<
  Pick<Webhook, 'url' | 'name' | 'events' | 'pages' | 'batchSeconds' | 'active'>
>

/**
 * Stores a new webhook. Its slot is unique, so that requests at the same time don't exceed the limit.
 *
 * @returns undefined when the account has MAX_WEBHOOKS
 */
export async function createWebhook (
  { webhook }: Database,
  userId: number,
  fields: WebhookFields & { readonly url: string }
): Promise<Webhook | undefined> {
  for (;;) {
    const taken = await webhook.findMany({ where: { userId }, select: { slot: true } })
    const slots = Array.from({ length: MAX_WEBHOOKS }, (_, index) => index + 1)
    const slot = slots.find((one) => !taken.some((other) => other.slot === one))
    if (slot === undefined) return undefined
    const created = await unlessTaken(webhook.create({ data: { id: uuidv7(), userId, slot, ...fields } }))
    if (created !== undefined) return created
  }
}

/** Lists the webhooks of a user, newest first: one more than `page.limit` if there is a next page. */
export const listWebhooks = async (
  { webhook }: Database,
  userId: number,
  { before, limit }: Page
): Promise<Webhook[]> =>
  await webhook.findMany({
    where: { userId, id: { lt: before } },
    orderBy: { id: 'desc' },
    take: limit + 1
  })

export const findWebhook = async (
  { webhook }: Database,
  userId: number,
  id: string
): Promise<Webhook | null> => await webhook.findFirst({ where: { id, userId } })

/**
 * Changes a webhook. One that becomes active has failed nothing yet, and gets what has waited.
 *
 * @returns undefined when the webhook is gone
 */
export async function changeWebhook (
  database: Database,
  { id, userId }: Webhook,
  fields: WebhookFields
): Promise<Webhook | undefined> {
  const reset = fields.active === undefined ? {} : { pausedReason: null, failingSince: null }
  const data = { ...fields, ...reset }
  const changed = await unlessMissing(database.webhook.update({ where: { id, userId }, data }))
  if (changed !== undefined && fields.active === true) {
    // After the webhook: a sender that puts a message back reads it with a lock.
    const where = { target: id, state: 'waiting', dueAt: null }
    await database.outboxMessage.updateMany({ where, data: { dueAt: new Date() } })
  }
  return changed
}

/** Begins a new secret. @returns undefined when the webhook is gone */
export async function replaceSecret (
  { webhook }: Database,
  { id, userId }: Webhook
): Promise<Webhook | undefined> {
  const data = { generation: { increment: 1 }, previousUntil: new Date(Date.now() + BOTH_SIGN_MS) }
  return await unlessMissing(webhook.update({ where: { id, userId }, data }))
}

/**
 * Deletes a webhook with its messages. What a write adds meanwhile is removed by the sender.
 *
 * @returns false when it is gone already
 */
export async function deleteWebhook (database: Database, { id, userId }: Webhook): Promise<boolean> {
  await database.outboxMessage.deleteMany({ where: { target: id } })
  return (await database.webhook.deleteMany({ where: { id, userId } })).count > 0
}
