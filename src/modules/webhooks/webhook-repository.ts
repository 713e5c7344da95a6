import { unlessMissing, unlessTaken, deleteInBatches, type Database } from '../../infra/postgres/database.ts'
import type { OutboxMessage, Webhook } from '../../infra/postgres/generated/prisma/client.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { OLDEST, type Page } from '../../http/pagination.ts'
import { ALL_PAGES, BATCH_EVENT, queuePages } from '../landing-pages/index.ts'

/** The most webhooks of an account. */
export const MAX_WEBHOOKS = 10
/** How long the previous secret signs, too, after it was replaced. */
const PREVIOUS_SIGNS_MS = 24 * 60 * 60 * 1000

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

/** Lists the webhooks of a user, newest first: one more than `limit` if more follow. */
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
    const where = { target: id, state: 'waiting', OR: [{ dueAt: null }, { attempts: { gt: 0 } }] }
    await database.outboxMessage.updateMany({ where, data: { dueAt: new Date() } })
  }
  return changed
}

/** Replaces the secret: the next generation is derived. @returns undefined when the webhook is gone */
export async function replaceSecret (
  { webhook }: Database,
  { id, userId }: Webhook
): Promise<Webhook | undefined> {
  const data = { generation: { increment: 1 }, previousUntil: new Date(Date.now() + PREVIOUS_SIGNS_MS) }
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

// The log of messages, and messages that an owner asks for.

export const TEST_EVENT = 'webhook.test'

/** How many messages that were sent a webhook keeps, and for how long. */
const KEPT_MESSAGES = 1000
const KEPT_MS = 30 * 24 * 60 * 60 * 1000
const FINISHED = ['delivered', 'failed']
/** Webhooks that one statement lists. */
const BATCH_SIZE = 1000

/** Lists the messages of a webhook, newest first: one more than `page.limit` if there is a next page. */
export const listMessages = async (
  { outboxMessage }: Database,
  target: string,
  { before, limit }: Page
): Promise<OutboxMessage[]> =>
  await outboxMessage.findMany({
    where: { target, id: { lt: before } },
    orderBy: { id: 'desc' },
    take: limit + 1
  })

export const findMessage = async (
  { outboxMessage }: Database,
  target: string,
  id: string
): Promise<OutboxMessage | null> => await outboxMessage.findFirst({ where: { target, id } })

/** Queues a message that isn't about the current state of a page. One like it that waits is due at once. */
async function queueMessage (
  { outboxMessage }: Database,
  { id: target, userId }: Webhook,
  message: Pick<OutboxMessage, 'type' | 'pageId'> & Partial<OutboxMessage>
): Promise<void> {
  const now = new Date()
  const data = { id: uuidv7(), target, userId, dueAt: now, settledAt: now, unconfirmed: 0, ...message }
  if (await unlessTaken(outboxMessage.create({ data })) !== undefined) return
  await outboxMessage.updateMany({
    where: { target, pageId: message.pageId, state: 'waiting' },
    data: { dueAt: now }
  })
}

export const queueTest = async (database: Database, webhook: Webhook): Promise<void> =>
  await queueMessage(database, webhook, { type: TEST_EVENT, pageId: webhook.id })

const queueBatch = async (database: Database, webhook: Webhook, merged: number): Promise<void> =>
  await queueMessage(database, webhook, { type: BATCH_EVENT, pageId: ALL_PAGES, merged })

/** Queues the current state of every page. @returns the number of messages */
export async function queueAllPages (
  database: Database,
  webhook: Webhook
): Promise<number> {
  const { id: webhookId, userId, batchSeconds } = webhook
  if (batchSeconds === 0) return await queuePages(database, { userId, webhookId })
  const count = await database.landingPage.count({ where: { userId, deletedAt: null } })
  if (count > 0) await queueBatch(database, webhook, count - 1)
  return Math.min(count, 1)
}

/** Queues a new message in place of an old one: the current state of its page. */
export async function queueAgain (
  database: Database,
  webhook: Webhook,
  { type, pageId, publicId, version }: OutboxMessage
): Promise<void> {
  const { id: webhookId, userId } = webhook
  if (type === TEST_EVENT) return await queueTest(database, webhook)
  if (type === BATCH_EVENT) return await queueBatch(database, webhook, 0)
  if (await queuePages(database, { userId, webhookId }, pageId) > 0) return
  // The page is gone for good, or the webhook collects changes now.
  if (webhook.batchSeconds > 0) return await queueBatch(database, webhook, 0)
  await queueMessage(database, webhook, { type: 'page.deleted', pageId, publicId, version })
}

/**
 * Removes messages that were sent a month ago, and the oldest of a webhook with too many.
 *
 * @returns the number of removed messages
 */
export async function pruneMessages (database: Database, signal: AbortSignal): Promise<number> {
  let sum = 0
  for (let after: string | undefined = OLDEST; after !== undefined && !signal.aborted;) {
    const webhooks: { id: string }[] = await database.webhook.findMany({
      where: { id: { gt: after } },
      orderBy: { id: 'asc' },
      take: BATCH_SIZE,
      select: { id: true }
    })
    for (const { id } of webhooks) sum += await pruneOf(database, id, signal)
    after = webhooks.at(-1)?.id
  }
  return sum
}

async function pruneOf ({ outboxMessage }: Database, target: string, signal: AbortSignal): Promise<number> {
  const finished = { target, state: { in: FINISHED } }
  const oldest = await outboxMessage.findFirst({
    where: finished,
    orderBy: { id: 'desc' },
    skip: KEPT_MESSAGES,
    select: { id: true }
  })
  const since = new Date(Date.now() - KEPT_MS)
  const OR = [{ changedAt: { lt: since } }, ...oldest === null ? [] : [{ id: { lte: oldest.id } }]]
  return await deleteInBatches(outboxMessage, { ...finished, OR }, signal)
}
