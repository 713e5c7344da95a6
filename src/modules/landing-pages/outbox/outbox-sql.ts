// SQL that queues messages about changes of pages, for the statements that make the changes. So no message is
// lost, and none is sent for a change that failed (docs/adr/0031-webhooks.md).

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
const UNCONFIRMED_SECONDS = 61
/** From the first change to its message, so that quick changes share one; in seconds. */
const COLLECT_SECONDS = 3

/** SQL of the state of a page as an event. */
export const stateSql = (isDeleted: string, isPublished: string): string =>
  `CASE WHEN ${isDeleted} THEN 'page.deleted' WHEN ${isPublished} THEN 'page.published'
    ELSE 'page.unpublished' END`

/** Who gets messages about a change: webhooks of the owner, and the CDN. */
const RECEIVERS =
  `SELECT id, user_id, events, pages, batch_seconds FROM webhooks WHERE user_id = change."userId"
      UNION ALL SELECT '${CDN_TARGET}', change."userId", NULL, '{}', 0 WHERE :purges::boolean`

export interface QueueOptions {
  /** SQL of the message's id. */
  readonly id?: string
  /** A condition on the columns of `change` and of `webhook`; the CDN has no `events`. */
  readonly isWanted?: string
  /** SQL of the times when the message is due, and when no replica serves an older version. */
  readonly dueAt?: string
  readonly settledAt?: string
  /** SQL of the number of changes that Redis doesn't know yet. */
  readonly unconfirmed?: string
}

/**
 * Returns a table of a WITH clause, `queued`, with the keys of messages about changes: one for the CDN and
 * each webhook that wants it. A message takes the place of one that waits, but not its time and attempts.
 * Messages of a page are in the order of its versions, because writers hold the lock of the page.
 *
 * @param changes a table with the columns type, "userId", id, "publicId", version, "contentHash",
 *   "authorType" and "authorName"
 */
export const queueSql = (changes: string, {
  id = ':messageId::uuid',
  isWanted = '(events IS NULL OR change.type = ANY (events))',
  dueAt =
    `now() + make_interval(secs => CASE WHEN batch_seconds > 0 THEN batch_seconds ELSE ${COLLECT_SECONDS} END)`,
  settledAt = `now() + interval '${UNCONFIRMED_SECONDS} s'`,
  unconfirmed = '1'
}: QueueOptions = {}): string => {
  const ofOnePage = (column: string): string => `CASE WHEN batch_seconds = 0 THEN ${column} END`
  return `queued AS (
    INSERT INTO outbox AS known (id, target, user_id, page_id, public_id, type, version, content_hash, author_type,
      author_name, due_at, settled_at, unconfirmed)
    SELECT ${id}, webhook.id, webhook.user_id, coalesce(${ofOnePage('change.id')}, '${ALL_PAGES}'),
      ${ofOnePage('"publicId"')}, coalesce(${ofOnePage('change.type')}, '${BATCH_EVENT}'), ${
    ofOnePage('version')
  },
      ${ofOnePage(`CASE WHEN change.type = 'page.published' THEN "contentHash" END`)}, ${
    ofOnePage('"authorType"')
  },
      ${ofOnePage('"authorName"')}, ${dueAt}, ${settledAt}, ${unconfirmed}
    FROM (${changes}) change CROSS JOIN LATERAL (${RECEIVERS}) webhook
    WHERE ${isWanted} AND (webhook.pages = '{}' OR change.id = ANY (webhook.pages))
    ORDER BY webhook.id, change.id
    ON CONFLICT (target, page_id) WHERE state = 'waiting' DO UPDATE SET
      id = excluded.id, type = excluded.type, version = excluded.version, content_hash = excluded.content_hash,
      author_type = excluded.author_type, author_name = excluded.author_name, merged = known.merged + 1,
      settled_at = GREATEST(known.settled_at, excluded.settled_at), changed_at = excluded.changed_at,
      unconfirmed = excluded.unconfirmed + CASE WHEN known.settled_at > now() THEN known.unconfirmed ELSE 0 END
    RETURNING key
  )`
}

/** The keys of the queued messages; null without any. */
export const QUEUED_KEYS = '(SELECT array_agg(key::text) FROM queued) AS queued'
