import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { CDN_AGAIN_TARGET, CDN_TARGET, CDN_TARGETS, CLAIM_OR_FREEZE, IS_NEXT, IS_SETTLED,
  untilUnique } from '../landing-pages/index.ts'

// Purges in the table `outbox`. They have the states of messages (landing-pages/outbox-repository.ts), except
// that a purge that has failed is not merged with a later one: it is tried until it succeeds.

/** From a purge to the second one, because a cache behind another one may fetch what that still has. */
const AGAIN_SECONDS = 5
const GIVE_UP_DAYS = 3

/** What a purge is about: a page, by the type of its message, a file, or the variants of a picture. */
export interface Purge {
  readonly key: bigint
  /** The public id of the page, or the name of the file without folder. */
  readonly name: string
  readonly type: string
}

interface ClaimedPurge extends Purge {
  /** Until when the claim holds. It tells whose claim it is. */
  readonly dueAt: Date
  /** False if it is only frozen. */
  readonly isClaimed: boolean
}

// Prisma has no SKIP LOCKED.
const CLAIM = statement<ClaimedPurge>(`
  WITH chosen AS (
    SELECT key FROM outbox WHERE target = ANY ('{${CDN_TARGETS.join()}}') AND ${IS_NEXT}
    ORDER BY target, due_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
  )
  UPDATE outbox SET ${CLAIM_OR_FREEZE}
  FROM chosen WHERE outbox.key = chosen.key
  RETURNING outbox.key, public_id AS name, type, due_at AS "dueAt", ${IS_SETTLED} AS "isClaimed"`)

/**
 * One statement, so that an interruption loses no second purge, and with PostgreSQL's clock, as CLAIM is. Of
 * each page, the last purge that was made or given up is kept, to be shown to the owner.
 */
const END_CLAIM = statement<{ outcome: 'delivered' | 'retried' | 'failed' }>(`
  WITH claimed AS (
    SELECT key, id, target, user_id, page_id, public_id, type, version,
      target = '${CDN_TARGET}' AND type IN ('page.published', 'page.unpublished') AS is_shown,
      CASE WHEN :retrySeconds::float8 IS NULL THEN 'delivered'
        WHEN changed_at > now() - interval '${GIVE_UP_DAYS} days' THEN 'retried' ELSE 'failed' END AS outcome
    FROM outbox WHERE key = ANY (:keys::bigint[]) AND state = 'sending' AND due_at = :dueAt::timestamptz
    ORDER BY page_id FOR UPDATE
  ), retried AS (
    UPDATE outbox SET due_at = now() + make_interval(secs => :retrySeconds::float8)
    FROM claimed WHERE outbox.key = claimed.key AND outcome = 'retried'
  ), second AS (
    INSERT INTO outbox (id, target, user_id, page_id, public_id, type, version, due_at, settled_at)
    SELECT id, '${CDN_AGAIN_TARGET}', user_id, page_id, public_id, type, version,
      now() + interval '${AGAIN_SECONDS} s', now()
    FROM claimed WHERE target = '${CDN_TARGET}' AND outcome = 'delivered' ORDER BY page_id
    ON CONFLICT (target, page_id) WHERE state = 'waiting' DO UPDATE SET due_at = excluded.due_at
  ), shown_before AS (
    DELETE FROM outbox USING claimed
    WHERE outbox.target = '${CDN_TARGET}' AND claimed.target = outbox.target
      AND outbox.page_id = claimed.page_id AND outbox.state IN ('delivered', 'failed')
      AND outcome <> 'retried'
  ), shown AS (
    UPDATE outbox SET state = outcome, due_at = NULL, last_attempt_at = now()
    FROM claimed WHERE outbox.key = claimed.key AND is_shown AND outcome <> 'retried'
  ), removed AS (
    DELETE FROM outbox USING claimed
    WHERE outbox.key = claimed.key AND NOT is_shown AND outcome <> 'retried'
  )
  SELECT outcome FROM claimed`)

// The command line has no Prisma.
const QUEUE_FILE = statement<{ key: string }>(`
  INSERT INTO outbox (id, target, user_id, page_id, public_id, type, due_at, settled_at)
  SELECT id, '${CDN_TARGET}', 0, id, name, type, now() + interval '3 s', now() + interval '61 s'
  FROM unnest(:ids::uuid[], :names::text[], :types::text[]) AS file (id, name, type)
  RETURNING key::text AS key`)

/** Purges of one request, which a process has claimed. */
export interface Claim {
  readonly purges: readonly Purge[]
  readonly dueAt: Date
}

/**
 * Freezes or claims what is due.
 *
 * @returns a claim, without purges if all that was due is only frozen; undefined when none is due
 */
export async function claimPurges (database: Database, limit: number): Promise<Claim | undefined> {
  const due = await untilUnique(async () => await database.run(CLAIM, { limit }))
  const purges = due.filter(({ isClaimed }) => isClaimed)
  return due[0] && { purges, dueAt: purges[0]?.dueAt ?? due[0].dueAt }
}

/**
 * Ends a claim: the purges are made, or wait for another attempt, or are given up three days after their
 * change. Purges that another process has claimed since are left alone.
 *
 * @param retrySeconds when the next attempt may begin; null if the purges are made
 * @returns how many were given up
 */
export async function endClaim (
  database: Database,
  { purges, dueAt }: Claim,
  retrySeconds: number | null
): Promise<number> {
  const keys = purges.map(({ key }) => key)
  const ended = await database.run(END_CLAIM, { keys, dueAt, retrySeconds })
  return ended.filter(({ outcome }) => outcome === 'failed').length
}

/**
 * Queues the purge of a file that is about to be removed, so that a crash loses none.
 *
 * @param stem the name of the folder of its variants, if it may have any
 * @returns the keys of the purges, for settleMessages() after the removal; none without CDN_PURGE
 */
export async function queueFilePurge (
  database: StatementRunner,
  name: string,
  stem?: string
): Promise<string[]> {
  if (database.purges !== true) return []
  const files = [{ name, type: 'file' }, ...stem === undefined ? [] : [{ name: stem, type: 'variants' }]]
  const queued = await database.run(QUEUE_FILE, {
    ids: files.map(uuidv7),
    names: files.map((file) => file.name),
    types: files.map((file) => file.type)
  })
  return queued.map(({ key }) => key)
}
