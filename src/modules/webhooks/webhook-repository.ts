import { unlessMissing, unlessTaken, deleteInBatches, type Database,
  type Transaction } from '../../infra/postgres/database.ts'
import type { LandingPage, OutboxMessage, Webhook } from '../../infra/postgres/generated/prisma/client.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { OLDEST, type Page } from '../../http/pagination.ts'
import { ALL_PAGES, BATCH_EVENT, UNCONFIRMED_SECONDS } from '../landing-pages/index.ts'

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
    await database.outboxMessage.updateMany({ where, data: { dueAt: await database.now() } })
  }
  return changed
}

/** Replaces the secret: the next generation is derived. @returns undefined when the webhook is gone */
export async function replaceSecret (
  database: Database,
  { id, userId }: Webhook
): Promise<Webhook | undefined> {
  const previousUntil = new Date((await database.now()).getTime() + PREVIOUS_SIGNS_MS)
  const data = { generation: { increment: 1 }, previousUntil }
  return await unlessMissing(database.webhook.update({ where: { id, userId }, data }))
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

/**
 * Queues messages, unless others of their pages wait. Those are due as soon as their version is settled.
 *
 * @param now by PostgreSQL's clock
 */
async function queueMessages (
  { outboxMessage }: Transaction,
  { id: target, userId }: Webhook,
  messages: readonly (Pick<OutboxMessage, 'type' | 'pageId'> & Partial<OutboxMessage>)[],
  now: Date
): Promise<void> {
  const settled = new Date(now.getTime() + UNCONFIRMED_SECONDS * 1000)
  const data = messages.map(({ settledAt = now, ...message }) => {
    // Not in the past, which would count as a delay. Not later, whatever a clock has said.
    const dueAt = settledAt < now ? now : settledAt > settled ? settled : settledAt
    return { ...message, id: uuidv7(), target, userId, dueAt, settledAt: dueAt, unconfirmed: 0 }
  })
  await outboxMessage.createMany({ data, skipDuplicates: true })
  const waiting = { target, pageId: { in: messages.map(({ pageId }) => pageId) }, state: 'waiting' }
  for (const [settledAt, dueAt] of [[{ lte: now }, now], [{ gt: now }, settled]] as const) {
    const where = { ...waiting, settledAt, dueAt: { gt: dueAt } } // null while the webhook is paused
    await outboxMessage.updateMany({ where, data: { dueAt } })
  }
}

export const queueTest = async (database: Database, webhook: Webhook): Promise<void> =>
  await queueMessages(database, webhook, [{ type: TEST_EVENT, pageId: webhook.id }], await database.now())

const queueBatch = async (database: Database, webhook: Webhook, merged: number): Promise<void> =>
  await queueMessages(
    database,
    webhook,
    [{ type: BATCH_EVENT, pageId: ALL_PAGES, merged }],
    await database.now()
  )

/** Pages that one query reads. */
const PAGES_PER_QUERY = 500

/** Queues the current state of every page. @returns the number of messages */
export async function queueAllPages (
  database: Database,
  webhook: Webhook,
  isAlone: boolean
): Promise<number> {
  const { userId, events, pages: wanted } = webhook
  const where = { userId, deletedAt: null }
  if (webhook.batchSeconds > 0) {
    const count = await database.landingPage.count({ where })
    if (count > 0) await queueBatch(database, webhook, count - 1)
    return Math.min(count, 1)
  }
  let sum = 0
  for (let after: string | undefined = OLDEST; after !== undefined;) {
    const pages: { id: string }[] = await database.landingPage.findMany({
      where: { ...where, id: { gt: after, ...wanted.length > 0 && { in: wanted } } },
      orderBy: [{ userId: 'asc' }, { id: 'asc' }],
      take: PAGES_PER_QUERY,
      select: { id: true }
    })
    const ids = pages.map(({ id }) => id)
    const now = await database.now()
    sum += await database.$transaction(async (transaction) => {
      const states = await lockPages(transaction, userId, ids)
      const messages = states.map((page) => messageAbout(page, isAlone))
      const sent = messages.filter(({ type }) => events.includes(type))
      await queueMessages(transaction, webhook, sent, now)
      return sent.length
    })
    after = ids.at(-1)
  }
  return sum
}

type PageState = Omit<LandingPage, 'currentData' | 'usedAssets'>

/**
 * Finds pages, and locks them until the end of the transaction. Writes wait, so that no newer message of a
 * page is sent before the one that the transaction queues.
 */
async function lockPages (transaction: Transaction, userId: number, ids: string[]): Promise<PageState[]> {
  // Prisma has no locks.
  await transaction.$queryRaw`
    SELECT id FROM landing_pages WHERE user_id = ${userId} AND id = ANY (${ids}::uuid[])
    ORDER BY user_id, id FOR SHARE`
  return await transaction.landingPage.findMany({
    where: { userId, id: { in: ids } },
    orderBy: { id: 'asc' }, // all statements lock messages in this order
    omit: { currentData: true, usedAssets: true }
  })
}

/** Returns a message about the state of a page. @param isAlone whether no other process serves readers */
function messageAbout (page: PageState, isAlone: boolean) {
  const { id: pageId, publicId, version, authorType, authorName } = page
  const type = page.deletedAt !== null ? 'page.deleted'
    : page.published ? 'page.published'
    : 'page.unpublished'
  return {
    type,
    pageId,
    publicId,
    version,
    contentHash: type === 'page.published' ? page.contentHash : null,
    ...page.authoredVersion === version && { authorType, authorName }, // else an older release wrote it
    settledAt: new Date(page.updatedAt.getTime() + (isAlone ? 0 : UNCONFIRMED_SECONDS * 1000))
  }
}

/** Queues a new message in place of an old one: the current state of its page. */
export async function queueAgain (
  database: Database,
  webhook: Webhook,
  { type, pageId, publicId, version }: OutboxMessage,
  isAlone: boolean
): Promise<void> {
  if (type === TEST_EVENT) return await queueTest(database, webhook)
  if (type === BATCH_EVENT || webhook.batchSeconds > 0) return await queueBatch(database, webhook, 0)
  const now = await database.now()
  await database.$transaction(async (transaction) => {
    const [page] = await lockPages(transaction, webhook.userId, [pageId])
    // Without a page, it is gone for good.
    const message = page === undefined ? { type: 'page.deleted', pageId, publicId, version }
      : messageAbout(page, isAlone)
    await queueMessages(transaction, webhook, [message], now)
  })
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
  const newestToRemove = await outboxMessage.findFirst({
    where: finished,
    orderBy: { id: 'desc' },
    skip: KEPT_MESSAGES,
    select: { id: true }
  })
  const since = new Date(Date.now() - KEPT_MS)
  const OR = [
    { changedAt: { lt: since } },
    ...newestToRemove === null ? [] : [{ id: { lte: newestToRemove.id } }]
  ]
  return await deleteInBatches(outboxMessage, { ...finished, OR }, signal)
}
