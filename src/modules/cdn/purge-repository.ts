import type { Database } from '../../infra/postgres/database.ts'
import { isUniqueViolation, statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { CDN_AGAIN_TARGET, CDN_TARGET, CDN_TARGETS } from '../landing-pages/index.ts'

// Purges in the table `outbox`. Like a message, a purge is frozen when it is due, and claimed when no replica
// serves an older version. A frozen one is tried until it succeeds; a later change makes another one.

/** How long a claim holds. Longer than a request may take. */
const CLAIM_SECONDS = 30
/** From a purge to the second one, because a cache behind another one may fetch what that still has. */
const AGAIN_MS = 5_000
const GIVE_UP_MS = 3 * 24 * 60 * 60 * 1000

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
    SELECT key FROM outbox
    WHERE target = ANY ('{${CDN_TARGETS.join()}}') AND state IN ('waiting', 'sending') AND due_at <= now()
      AND (state = 'sending' OR NOT EXISTS (
        SELECT FROM outbox before
        WHERE before.target = outbox.target AND before.page_id = outbox.page_id AND before.state = 'sending'))
    ORDER BY target, due_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
  )
  UPDATE outbox SET state = 'sending',
    due_at = CASE WHEN settled_at <= now() THEN now() + make_interval(secs => ${CLAIM_SECONDS}) ELSE settled_at END
  FROM chosen WHERE outbox.key = chosen.key
  RETURNING outbox.key, public_id AS name, type, due_at AS "dueAt", settled_at <= now() AS "isClaimed"`)

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
 * @returns a claim, without purges if all that was due is only frozen, or another process was faster;
 *   undefined when none is due
 */
export async function claimPurges (database: Database, limit: number): Promise<Claim | undefined> {
  try {
    const due = await database.run(CLAIM, { limit })
    const purges = due.filter(({ isClaimed }) => isClaimed)
    return due[0] && { purges, dueAt: purges[0]?.dueAt ?? due[0].dueAt }
  } catch (error) {
    if (isUniqueViolation(error)) return { purges: [], dueAt: new Date() }
    throw error
  }
}

/**
 * Ends purges, and queues the second ones. Keeps the last purge of each page that exists. If this is
 * interrupted, the purges are claimed and made again.
 *
 * @returns how many of them no other process has claimed since
 */
export async function finishPurges (
  { outboxMessage }: Database,
  { purges, dueAt }: Claim,
  state: 'delivered' | 'failed'
): Promise<number> {
  const now = new Date()
  const keys = purges.map(({ key }) => key)
  const mine = { key: { in: keys }, state: 'sending', dueAt }
  const found = await outboxMessage.findMany({ where: mine })
  const first = found.filter(({ target }) => target === CDN_TARGET)
  const pageId = { in: first.map((purge) => purge.pageId) }
  if (state === 'delivered') {
    const again = { target: CDN_AGAIN_TARGET, dueAt: new Date(now.getTime() + AGAIN_MS) }
    await outboxMessage.updateMany({ where: { target: again.target, pageId, state: 'waiting' }, data: again })
    const data = first.map(({ id, userId, pageId, publicId, type, version }) => (
      { id, userId, pageId, publicId, type, version, settledAt: now, ...again }
    ))
    await outboxMessage.createMany({ data, skipDuplicates: true })
  }
  // Not these purges: if their claim has lapsed, another process may have finished them.
  const finished = {
    target: CDN_TARGET,
    pageId,
    state: { in: ['delivered', 'failed'] },
    key: { notIn: keys }
  }
  await outboxMessage.deleteMany({ where: finished })
  const kept = { ...mine, target: CDN_TARGET, type: { in: ['page.published', 'page.unpublished'] } }
  await outboxMessage.updateMany({ where: kept, data: { state, dueAt: null, lastAttemptAt: now } })
  await outboxMessage.deleteMany({ where: mine })
  return found.length
}

/**
 * Lets purges be tried again, and gives up those whose change was three days ago.
 *
 * @returns how many were given up
 */
export async function postponePurges (database: Database, claim: Claim, seconds: number): Promise<number> {
  const now = Date.now()
  await database.outboxMessage.updateMany({
    where: {
      key: { in: claim.purges.map(({ key }) => key) },
      state: 'sending',
      dueAt: claim.dueAt,
      changedAt: { gte: new Date(now - GIVE_UP_MS) }
    },
    data: { dueAt: new Date(now + seconds * 1000) }
  })
  return await finishPurges(database, claim, 'failed')
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
