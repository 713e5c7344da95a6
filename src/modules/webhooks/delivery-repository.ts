import { unlessTaken, type Database } from '../../infra/postgres/database.ts'
import { deleteInBatches } from '../../infra/postgres/delete-in-batches.ts'
import type { OutboxMessage, Webhook } from '../../infra/postgres/generated/prisma/client.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { OLDEST, type Page } from '../../http/pagination.ts'
import { ALL_PAGES, BATCH_EVENT, queuePages } from '../landing-pages/index.ts'

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

/** Queues a message that isn't about the current state of a page, unless one like it waits already. */
async function queueMessage (
  { outboxMessage }: Database,
  { id: target, userId }: Webhook,
  message: Pick<OutboxMessage, 'type' | 'pageId'> & Partial<OutboxMessage>
): Promise<void> {
  const now = new Date()
  const data = { id: uuidv7(), target, userId, dueAt: now, settledAt: now, unconfirmed: 0, ...message }
  await unlessTaken(outboxMessage.create({ data }))
}

export const queueTest = async (database: Database, webhook: Webhook): Promise<void> =>
  await queueMessage(database, webhook, { type: TEST_EVENT, pageId: webhook.id })

const queueBatch = async (database: Database, webhook: Webhook, merged: number): Promise<void> =>
  await queueMessage(database, webhook, { type: BATCH_EVENT, pageId: ALL_PAGES, merged })

/** Queues the current state of every page. @returns the number of messages */
export async function queueAllPages (database: Database, webhook: Webhook): Promise<number> {
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
