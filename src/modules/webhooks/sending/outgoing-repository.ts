import type { Database } from '../../../infra/postgres/database.ts'
import type { OutboxMessage } from '../../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { queueNotice } from '../../accounts/index.ts'
import { CDN_TARGET, CLAIM_OR_FREEZE, IS_NEXT, IS_SETTLED, untilUnique } from '../../landing-pages/index.ts'
import type { Outcome } from '../../../http/send-request.ts'

// Takes messages from the table `outbox` and ends the work on them. landing-pages/outbox-repository.ts
// describes their states. The claim of a process that has died lapses.

/** How long after a change its message waits for the purge of a CDN. After that, the CDN counts as away. */
const PURGE_SECONDS = 90
/** Messages that a statement looks at, at most one of each webhook. */
const CANDIDATES = 10

/** A message that was frozen or claimed, and its webhook. */
export interface OutgoingMessage extends
  Omit<
    OutboxMessage,
    'state' | 'dueAt' | 'settledAt' | 'unconfirmed' | 'lastAttemptAt' | 'status' | 'error' | 'durationMs'
  >
{
  /** The number of this attempt, from 1. It tells whose claim it is. */
  readonly attempts: number
  /** False if it is only frozen, because a replica may still serve an older version. */
  readonly isClaimed: boolean
  /** Null if the webhook was deleted. */
  readonly url: string | null
  readonly active: boolean | null
  readonly generation: number | null
  /** Whether the previous secret signs, too. */
  readonly isRotating: boolean | null
  /** Since when all attempts have failed; null if the last one succeeded. */
  readonly failingSince: Date | null
}

const IS_UNFINISHED = "state IN ('waiting', 'sending')"

// Prisma has no SKIP LOCKED and no recursion. The recursion jumps from target to target in the index, so that
// a webhook with many messages neither delays the others nor makes the statement longer.
const CLAIM = statement<OutgoingMessage>(`
  WITH RECURSIVE targets AS (
    (SELECT target FROM outbox WHERE ${IS_UNFINISHED} ORDER BY target LIMIT 1)
    UNION ALL
    SELECT (SELECT next.target FROM outbox next WHERE ${IS_UNFINISHED} AND next.target > targets.target
      ORDER BY next.target LIMIT 1)
    FROM targets WHERE targets.target IS NOT NULL
  ), candidates AS ( -- the next message of each webhook that is not busy
    SELECT message.key, message.due_at FROM targets CROSS JOIN LATERAL (
      SELECT key, due_at, user_id FROM outbox
      WHERE target = targets.target AND ${IS_NEXT}
        -- a CDN has to be purged before a receiver reads the page through it
        AND (NOT ${IS_SETTLED} OR NOT EXISTS (
          SELECT FROM outbox purge
          WHERE purge.target = '${CDN_TARGET}' AND purge.page_id = outbox.page_id
            AND purge.version <= outbox.version
            AND (purge.state = 'sending' OR purge.state = 'waiting' AND purge.due_at <= now())
            AND purge.changed_at > now() - interval '${PURGE_SECONDS} s'))
      ORDER BY due_at LIMIT 1
    ) message
    WHERE targets.target <> ALL (:busyWebhooks::uuid[]) AND message.user_id <> ALL (:busyAccounts::integer[])
      AND NOT (:isCrowded::boolean AND EXISTS (
        SELECT FROM webhooks WHERE id = targets.target AND failing_since IS NOT NULL))
    ORDER BY message.due_at LIMIT ${CANDIDATES}
  ), chosen AS ( -- the first candidate that no other process is taking
    SELECT key FROM outbox WHERE key IN (SELECT key FROM candidates) AND ${IS_UNFINISHED} AND due_at <= now()
    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
  ), taken AS (
    UPDATE outbox SET ${CLAIM_OR_FREEZE},
      attempts = CASE WHEN ${IS_SETTLED} THEN attempts + 1 ELSE attempts END,
      last_attempt_at = CASE WHEN ${IS_SETTLED} THEN now() ELSE last_attempt_at END
    FROM chosen WHERE outbox.key = chosen.key
    RETURNING outbox.key, id, target, user_id, page_id, public_id, type, version, content_hash, author_type,
      author_name, merged, attempts, created_at, changed_at, ${IS_SETTLED} AS is_claimed
  )
  SELECT key, taken.id, target, taken.user_id AS "userId", page_id AS "pageId", public_id AS "publicId", type,
    version, content_hash AS "contentHash", author_type AS "authorType", author_name AS "authorName", merged,
    attempts, taken.created_at AS "createdAt", changed_at AS "changedAt", is_claimed AS "isClaimed", url,
    active, generation, coalesce(previous_until > now(), false) AS "isRotating",
    failing_since AS "failingSince"
  FROM taken LEFT JOIN webhooks ON webhooks.id = target`)

// One statement: a webhook that becomes active at this moment must not leave the message without a due time,
// and a newer one that waits must not be sent first.
const PUT_BACK = statement<object>(`
  WITH failed AS (
    SELECT key, target, page_id, merged, outbox.created_at, last_attempt_at,
      CASE WHEN active THEN now() + make_interval(secs => :seconds::float8) END AS due_at
    FROM outbox JOIN webhooks ON webhooks.id = target
    WHERE key = :key::bigint AND state = 'sending' AND attempts = :attempts::integer
    FOR UPDATE OF outbox FOR SHARE OF webhooks
  ), newer AS ( -- takes the place of the failed one, with its time and attempts
    UPDATE outbox SET due_at = failed.due_at, attempts = :countedAttempts::integer,
      merged = outbox.merged + failed.merged + 1, created_at = failed.created_at,
      last_attempt_at = failed.last_attempt_at, status = :status::smallint, error = :error,
      duration_ms = :durationMs::integer
    FROM failed WHERE outbox.target = failed.target AND outbox.page_id = failed.page_id AND state = 'waiting'
    RETURNING outbox.key
  ), superseded AS (
    DELETE FROM outbox USING failed, newer WHERE outbox.key = failed.key
  )
  UPDATE outbox SET state = 'waiting', due_at = failed.due_at, attempts = :countedAttempts::integer,
    status = :status::smallint, error = :error, duration_ms = :durationMs::integer
  FROM failed WHERE outbox.key = failed.key AND NOT EXISTS (SELECT FROM newer)`)

/**
 * Freezes or claims the message that is due first.
 *
 * @param busy webhooks that get no further message now, and accounts whose webhooks get none
 * @param isCrowded whether no webhook gets one whose last attempt has failed
 * @returns undefined when none is due
 */
export async function claimMessage (
  database: Database,
  busy: { readonly webhooks: readonly string[], readonly accounts: readonly number[] },
  isCrowded: boolean
): Promise<OutgoingMessage | undefined> {
  const values = { busyWebhooks: busy.webhooks, busyAccounts: busy.accounts, isCrowded }
  return (await untilUnique(async () => await database.run(CLAIM, values)))[0]
}

/**
 * Ends the claim. The next attempt may begin after `seconds`, or when the webhook is active again.
 *
 * @param countedAttempts how many attempts count
 */
export async function putBackMessage (
  database: Database,
  { key, attempts }: OutgoingMessage,
  countedAttempts: number,
  seconds: number,
  { status, error, durationMs }: Result
): Promise<void> {
  const values = { key, attempts, countedAttempts, seconds, status, error, durationMs }
  await untilUnique(async () => await database.run(PUT_BACK, values))
}

/** The outcome of an attempt that is stored. */
export interface Result extends Pick<Outcome, 'status' | 'error'> {
  readonly durationMs: number | null
}

/** Ends the work on a message. @returns false if another process has claimed it since */
export async function finishMessage (
  { outboxMessage }: Database,
  { key, attempts }: OutgoingMessage,
  state: 'delivered' | 'failed',
  result: Result
): Promise<boolean> {
  const where = { key, attempts, state: 'sending' }
  return (await outboxMessage.updateMany({ where, data: { state, dueAt: null, ...result } })).count > 0
}

/** Removes a message of a deleted webhook. */
export async function removeMessage ({ outboxMessage }: Database, { key }: OutgoingMessage): Promise<void> {
  await outboxMessage.deleteMany({ where: { key } })
}

/** Notes that an attempt of a webhook has failed. */
export async function noteFailure ({ webhook }: Database, id: string): Promise<void> {
  await webhook.updateMany({ where: { id, failingSince: null }, data: { failingSince: new Date() } })
}

/**
 * Notes that a message was delivered after others had failed.
 *
 * @param wasAway whether all that waits for its next attempt is due now
 */
export async function noteSuccess (database: Database, id: string, wasAway: boolean): Promise<void> {
  await database.webhook.updateMany({ where: { id }, data: { failingSince: null } })
  if (!wasAway) return
  const now = await database.now()
  const where = { target: id, state: 'waiting', attempts: { gt: 0 }, dueAt: { gt: now } }
  await database.outboxMessage.updateMany({ where, data: { dueAt: now } })
}

/** @returns whether it was active until now */
export async function pauseWebhook (
  database: Database,
  id: string,
  reason: 'gone' | 'failing',
  hasMail: boolean
): Promise<boolean> {
  const isPaused = await database.$transaction(async (transaction) => {
    const data = { active: false, pausedReason: reason }
    const { count } = await transaction.webhook.updateMany({ where: { id, active: true }, data })
    if (count === 0) return false
    const { user } = await transaction.webhook.findUniqueOrThrow({ where: { id }, select: { user: true } })
    if (hasMail) await queueNotice(transaction, 'webhook_paused', user, { reason })
    return true
  })
  if (!isPaused) return false
  await database.outboxMessage.updateMany({ where: { target: id, state: 'waiting' }, data: { dueAt: null } })
  return true
}
