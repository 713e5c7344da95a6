import { deleteInBatches, type Database } from '../../infra/postgres/database.ts'
import type { Backlog } from '../../infra/postgres/shared-work.ts'
import { isUniqueViolation, statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { firstUuidAt } from '../../infra/system/identifiers.ts'

// Messages to webhooks, and purges of the CDN. The statement that changes a page also queues them, so none is
// lost, and none is sent for a change that failed (docs/adr/0031-webhooks.md).

// The states of a message: it is `waiting`, and later changes of its page are merged into it, until it is
// due. Then it is frozen (`sending`), and the next change begins another one. Once it is settled, because no
// replica serves an older version, a process claims it for 30 s. At last it is `delivered` or `failed`.

/** What a message about a page tells: the state that the page is in. */
export const PAGE_EVENTS = ['page.published', 'page.unpublished', 'page.deleted'] as const

/** One message for all pages, for webhooks that collect changes. */
export const BATCH_EVENT = 'pages.changed'
/** The page id of messages about several pages. */
export const ALL_PAGES = '00000000-0000-0000-0000-000000000000'

/** The `target` of purges of the CDN, and of the second purges, which follow. No webhook has these ids. */
export const CDN_TARGET = '00000000-0000-0000-0000-000000000001'
export const CDN_AGAIN_TARGET = '00000000-0000-0000-0000-000000000002'
export const CDN_TARGETS = [CDN_TARGET, CDN_AGAIN_TARGET]

/** Replicas have an older version for at most this long if its publication was lost, in seconds. */
export const UNCONFIRMED_SECONDS = 61
/** From the first change to its message, so that quick changes share one; in seconds. */
const COLLECT_SECONDS = 3

/** How long a claim holds. Longer than an attempt may take. */
export const CLAIM_SECONDS = 30

/** The next step of a row is due, and no earlier row of its page is still under way. */
export const IS_NEXT =
  `state IN ('waiting', 'sending') AND due_at <= now() AND (state = 'sending' OR NOT EXISTS (
        SELECT FROM outbox earlier WHERE earlier.target = outbox.target AND earlier.page_id = outbox.page_id
          AND earlier.state = 'sending'))`
/** Whether no replica serves an older version. */
export const IS_SETTLED = 'settled_at <= now()'
/** Claims a row that is settled; freezes another one until it is. */
export const CLAIM_OR_FREEZE = `state = 'sending', due_at =
      CASE WHEN ${IS_SETTLED} THEN now() + interval '${CLAIM_SECONDS} s' ELSE settled_at END`

/** How often a statement runs if others change a row of the same page at the same moment. */
const MAX_TRIES = 10

/** Runs a statement again while another one has just frozen or queued a row of the same page. */
export async function untilUnique<Result> (run: () => Promise<Result>): Promise<Result> {
  for (let tries = 1;; tries++) {
    try {
      return await run()
    } catch (error) {
      if (!isUniqueViolation(error) || tries === MAX_TRIES) throw error
    }
  }
}

/** Who gets messages about a change: webhooks of the owner, and the CDN. */
const RECEIVERS =
  `SELECT id, user_id, events, pages, batch_seconds FROM webhooks WHERE user_id = change."userId"
      UNION ALL SELECT '${CDN_TARGET}', change."userId", NULL, '{}', 0 WHERE :purges::boolean`

/**
 * Returns the SQL of a table, `queued`, with the keys of messages about changes: one for the CDN and
 * each webhook that wants it. A message takes the place of one that waits, but not its time and attempts.
 * Messages of a page are in the order of its versions, because writers hold the lock of the page.
 *
 * @param changes a table with the columns type, "userId", id, "publicId", version, "contentHash",
 *   "authorType" and "authorName"
 * @param id SQL of the message's id
 * @param isWanted a condition on the columns of `change` and of `receiver`; the CDN has no `events`
 */
export const queueSql = (
  changes: string,
  id = ':messageId::uuid',
  isWanted = '(events IS NULL OR change.type = ANY (events))'
): string => {
  // A webhook that collects changes gets one message for all pages.
  const ofOnePage = (column: string): string => `CASE WHEN batch_seconds = 0 THEN ${column} END`
  return `queued AS (
    INSERT INTO outbox AS waiting (id, target, user_id, page_id, public_id, type, version, content_hash,
      author_type, author_name, due_at, settled_at, unconfirmed)
    SELECT ${id}, receiver.id, receiver.user_id, coalesce(${ofOnePage('change.id')}, '${ALL_PAGES}'),
      ${ofOnePage('"publicId"')}, coalesce(${ofOnePage('change.type')}, '${BATCH_EVENT}'),
      ${ofOnePage('version')},
      ${ofOnePage(`CASE WHEN change.type = 'page.published' THEN "contentHash" END`)},
      ${ofOnePage('"authorType"')}, ${ofOnePage('"authorName"')},
      now() + make_interval(secs => CASE WHEN batch_seconds > 0 THEN batch_seconds ELSE ${COLLECT_SECONDS} END),
      now() + interval '${UNCONFIRMED_SECONDS} s', 1
    FROM (${changes}) change CROSS JOIN LATERAL (${RECEIVERS}) receiver
    WHERE ${isWanted} AND (receiver.pages = '{}' OR change.id = ANY (receiver.pages))
    ORDER BY receiver.id, change.id -- all statements lock messages in this order
    ON CONFLICT (target, page_id) WHERE state = 'waiting' DO UPDATE SET
      id = excluded.id, type = excluded.type, version = excluded.version, content_hash = excluded.content_hash,
      author_type = excluded.author_type, author_name = excluded.author_name, merged = waiting.merged + 1,
      settled_at = GREATEST(waiting.settled_at, excluded.settled_at), changed_at = excluded.changed_at,
      unconfirmed = excluded.unconfirmed +
        CASE WHEN waiting.settled_at > now() THEN waiting.unconfirmed ELSE 0 END
    RETURNING key
  )`
}

/** The keys of the queued messages; null without any. */
export const QUEUED_KEYS = '(SELECT array_agg(key::text) FROM queued) AS queued'

/** What a statement says that queues messages. */
export interface Queued {
  /** The keys of the messages; null without any. */
  readonly queued: string[] | null
}

/**
 * Hot, if an account has webhooks. A message that stands for several changes is settled by the last one that
 * Redis is told of.
 */
const SETTLE = statement<object>(`
  WITH told AS (
    SELECT key, unconfirmed - 1 AS unconfirmed, CASE WHEN unconfirmed > 1 THEN settled_at
        ELSE LEAST(settled_at, now() + make_interval(secs => :seconds::float8)) END AS settled_at
    FROM outbox WHERE key = ANY (:keys::bigint[]) AND settled_at > now() ORDER BY target FOR UPDATE
  )
  UPDATE outbox SET unconfirmed = told.unconfirmed, settled_at = told.settled_at,
    due_at = CASE WHEN state = 'sending' THEN told.settled_at -- frozen: its claim is next
      -- a page's first attempt; not a retry, a paused webhook or a collection
      WHEN due_at IS NOT NULL AND attempts = 0 AND version IS NOT NULL THEN LEAST(due_at, told.settled_at)
      ELSE due_at END
  FROM told WHERE outbox.key = told.key AND state IN ('waiting', 'sending')`)

/**
 * Notes that all replicas were told of a change.
 *
 * @param seconds how long they may still serve an older version
 */
export async function settleMessages (
  database: StatementRunner,
  keys: readonly string[],
  seconds: number
): Promise<void> {
  await database.run(SETTLE, { keys, seconds })
}

/** The purges of one change, by the keys of all its messages, or all purges of a page. */
export type QueuedPurges = { readonly keys: readonly string[] } | { readonly pageId: string }

/** Whether all these purges of the CDN have been made. True if there are none. */
export async function isPurged ({ outboxMessage }: Database, purges: QueuedPurges): Promise<boolean> {
  const selection = 'keys' in purges ? { key: { in: purges.keys.map(BigInt) } } : purges
  const where = { ...selection, target: CDN_TARGET, state: { not: 'delivered' } }
  return await outboxMessage.findFirst({ where, select: { key: true } }) === null
}

/** The state of a page's latest purge. */
export interface PurgeState {
  readonly state: 'waiting' | 'purged' | 'failed'
  readonly version: bigint
  /** When it was purged, or given up; null while it waits. */
  readonly at: Date | null
}

const PURGE_STATES: Readonly<Record<string, PurgeState['state']>> = { delivered: 'purged', failed: 'failed' }

/** Finds the newest purge of a page; null if there was none in the last 30 days. */
export async function findPurge ({ outboxMessage }: Database, pageId: string): Promise<PurgeState | null> {
  const purge = await outboxMessage.findFirst({
    where: { target: CDN_TARGET, pageId, version: { not: null } },
    orderBy: { version: 'desc' }
  })
  if (purge?.version == null) return null
  const { dueAt, lastAttemptAt, version } = purge
  return { state: PURGE_STATES[purge.state] ?? 'waiting', version, at: dueAt === null ? lastAttemptAt : null }
}

const PURGES_KEPT_MS = 30 * 24 * 60 * 60 * 1000

/** Removes purges whose last change was 30 days ago, also those that nobody makes any more. */
export async function deleteOldPurges ({ outboxMessage }: Database, signal?: AbortSignal): Promise<void> {
  const id = { lt: firstUuidAt(Date.now() - PURGES_KEPT_MS) }
  await deleteInBatches(outboxMessage, { target: { in: CDN_TARGETS }, id }, signal)
}

/**
 * Measures what should have happened but has not.
 *
 * @param target whose messages or purges
 * @param time when they should have happened
 */
export async function measureOverdue (
  database: Database,
  target: { readonly in: string[] } | { readonly notIn: string[] },
  time: 'dueAt' | 'settledAt'
): Promise<Backlog> {
  const now = await database.now()
  const where = { target, state: { in: ['waiting', 'sending'] }, [time]: { lte: now } }
  const count = await database.outboxMessage.count({ where })
  const oldest = await database.outboxMessage.findFirst({ where, orderBy: { [time]: 'asc' } })
  return { count, oldestSeconds: (now.getTime() - (oldest?.[time] ?? now).getTime()) / 1000 }
}
