import type { Page } from '../../../http/pagination.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import type { Session } from './session-repository.ts'

/** A session in the list of its user. */
export interface ListedSession {
  readonly id: string
  readonly userAgent: string | null
  /** Null if an older release started it. */
  readonly address: string | null
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
}

/** Which sessions have not ended. Whether one may be used is decided by PostgreSQL's clock, not here. */
const alive = (now: Date) => ({ revokedAt: null, expiresAt: { gt: now } })

/** Lists the sessions of a user, newest first: one more than `page.limit` if there is a next page. */
export async function listSessions (
  database: Database,
  { userId, id: current }: Session,
  { before, limit }: Page
): Promise<ListedSession[]> {
  const now = new Date()
  return await database.session.findMany({
    where: {
      userId,
      ...before !== undefined && { id: { lt: before } },
      ...alive(now),
      // A session whose refresh token has expired can't be used any more, unless it is the bearer's.
      OR: [{ id: current }, { refreshTokens: { some: { rotatedAt: null, expiresAt: { gt: now } } } }]
    },
    orderBy: { id: 'desc' },
    take: limit + 1,
    select: { id: true, createdAt: true, lastUsedAt: true, userAgent: true, address: true }
  })
}

/** Ends one session of a user. @returns false when there is no such session */
export async function endSession (database: Database, userId: number, id: string): Promise<boolean> {
  const now = new Date()
  const { count } = await database.session.updateMany({
    where: { id, userId, ...alive(now) },
    data: { revokedAt: now }
  })
  return count > 0
}

/** Ends all sessions of a user except this one. @returns how many it ended */
export async function endOtherSessions (database: Database, { userId, id }: Session): Promise<number> {
  const now = new Date()
  const { count } = await database.session.updateMany({
    where: { userId, id: { not: id }, ...alive(now) },
    data: { revokedAt: now }
  })
  return count
}
