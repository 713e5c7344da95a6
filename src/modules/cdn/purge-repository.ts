import type { Database } from '../../infra/postgres/database.ts'
import { statement } from '../../infra/postgres/statement.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { CDN_AGAIN_TARGET, CDN_TARGET, CDN_TARGETS, CLAIM_OR_FREEZE, CLAIM_SECONDS, IS_NEXT, IS_SETTLED,
  untilUnique } from '../landing-pages/index.ts'

// Purges in the table `outbox`. They have the states of messages (landing-pages/outbox-repository.ts), except
// that a purge that has failed is not merged with a later one: it is tried until it succeeds.

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
    SELECT key FROM outbox WHERE target = ANY ('{${CDN_TARGETS.join()}}') AND ${IS_NEXT}
    ORDER BY target, due_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
  )
  UPDATE outbox SET ${CLAIM_OR_FREEZE}
  FROM chosen WHERE outbox.key = chosen.key
  RETURNING outbox.key, public_id AS name, type, due_at AS "dueAt", ${IS_SETTLED} AS "isClaimed"`)

/** Purges of one request, which a process has claimed. */
export interface Claim {
  readonly purges: readonly Purge[]
  readonly dueAt: Date
  /** Returns the time of PostgreSQL's clock, or a moment later. The clock of the process may be wrong. */
  readonly now: () => number
}

/**
 * Freezes or claims what is due.
 *
 * @returns a claim, without purges if all that was due is only frozen; undefined when none is due
 */
export async function claimPurges (database: Database, limit: number): Promise<Claim | undefined> {
  const startedAt = performance.now()
  const due = await untilUnique(async () => await database.run(CLAIM, { limit }))
  const purges = due.filter(({ isClaimed }) => isClaimed)
  const dueAt = (purges[0] ?? due[0])?.dueAt
  if (dueAt === undefined) return undefined
  const now = () => dueAt.getTime() - CLAIM_SECONDS * 1000 + performance.now() - startedAt
  return { purges, dueAt, now }
}

/** What is kept of a page's last purge, to be shown to the owner. */
const SHOWN = { target: CDN_TARGET, type: { in: ['page.published', 'page.unpublished'] } }

/**
 * Ends a claim: the purges are made, or wait for another attempt, or are given up three days after their
 * change. Purges that another process has claimed since are left alone. After an interruption, the claim
 * lapses, and they are made again.
 *
 * @param retrySeconds when the next attempt may begin; null if the purges are made
 * @returns how many were given up
 */
export async function endClaim (
  { outboxMessage }: Database,
  { purges, dueAt, now }: Claim,
  retrySeconds: number | null
): Promise<number> {
  const claimed = { key: { in: purges.map(({ key }) => key) }, state: 'sending', dueAt }
  const cutoff = new Date(now() - GIVE_UP_MS)
  const isEnding = retrySeconds === null ? claimed : { ...claimed, changedAt: { lte: cutoff } }
  if (retrySeconds !== null) {
    const data = { dueAt: new Date(now() + retrySeconds * 1000) }
    await outboxMessage.updateMany({ where: { ...claimed, changedAt: { gt: cutoff } }, data })
  }
  const ended = await outboxMessage.findMany({ where: isEnding })
  if (ended.length === 0) return 0
  const first = ended.filter(({ target }) => target === CDN_TARGET)
  const ofPages = { pageId: { in: first.map(({ pageId }) => pageId) } }
  if (retrySeconds === null) {
    const again = { target: CDN_AGAIN_TARGET, state: 'waiting' }
    const times = { dueAt: new Date(now() + AGAIN_MS), settledAt: new Date(now()) }
    // First those that wait: none of them can be claimed any more before the others are added.
    await outboxMessage.updateMany({ where: { ...again, ...ofPages }, data: times })
    await outboxMessage.createMany({
      data: first.map(({ id, userId, pageId, publicId, type, version }) => ({
        id,
        userId,
        pageId,
        publicId,
        type,
        version,
        ...again,
        ...times
      })),
      skipDuplicates: true
    })
  }
  await outboxMessage.deleteMany({ where: { ...SHOWN, ...ofPages, state: { in: ['delivered', 'failed'] } } })
  const state = retrySeconds === null ? 'delivered' : 'failed'
  const data = { state, dueAt: null, lastAttemptAt: new Date(now()) }
  await outboxMessage.updateMany({ where: { ...isEnding, ...SHOWN }, data })
  await outboxMessage.deleteMany({ where: isEnding })
  return retrySeconds === null ? 0 : ended.length
}

/**
 * Queues the purge of a file that is about to be removed, so that a crash loses none.
 *
 * @param stem the name of the folder of its variants, if it may have any
 * @returns the keys of the purges, for settleMessages() after the removal; none without CDN_PURGE
 */
export async function queueFilePurge (database: Database, name: string, stem?: string): Promise<string[]> {
  if (!database.purges) return []
  const files = [
    { publicId: name, type: 'file' },
    ...stem === undefined ? [] : [{ publicId: stem, type: 'variants' }]
  ]
  const queued = await database.outboxMessage.createManyAndReturn({
    data: files.map((file) => {
      const id = uuidv7()
      return { ...file, id, pageId: id, target: CDN_TARGET, userId: 0 } // its times are the defaults
    }),
    select: { key: true }
  })
  return queued.map(({ key }) => String(key))
}
