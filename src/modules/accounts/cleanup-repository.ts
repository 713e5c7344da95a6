import type { FastifyInstance } from 'fastify'
import type { Database } from '../../infra/postgres/database.ts'
import { BATCH_SIZE, deleteInBatches } from '../../infra/postgres/delete-in-batches.ts'
import { runInOneProcess } from '../../infra/postgres/shared-task.ts'

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS
/** How long expired keys are shown, so that their owner sees why a program is refused. */
const KEYS_SHOWN_MS = 90 * DAY_MS
/** How long a revoked session is kept to recognise a replay. */
const REVOKED_KEPT_MS = DAY_MS

/** Deletes ended sessions, refresh tokens, limits of mails and old expired keys in batches. */
export async function sweepExpired (database: Database): Promise<void> {
  const now = Date.now()
  await deleteExpiredTokens(database, new Date(now))
  await deleteSessions(database, 'expiresAt', new Date(now))
  await deleteSessions(database, 'revokedAt', new Date(now - REVOKED_KEPT_MS))
  await database.apiKey.deleteMany({ where: { expiresAt: { lt: new Date(now - KEYS_SHOWN_MS) } } })
  await deleteMailLimits(database, new Date(now - HOUR_MS))
}

async function deleteExpiredTokens ({ refreshToken }: Database, before: Date): Promise<void> {
  await deleteInBatches(before, {
    find: async (expiresAt, take) =>
      await refreshToken.findMany({
        where: { expiresAt },
        orderBy: { expiresAt: 'asc' },
        take,
        select: { tokenHash: true, expiresAt: true }
      }),
    timeOf: ({ expiresAt }) => expiresAt,
    remove: async (tokens) =>
      await refreshToken.deleteMany({
        where: { tokenHash: { in: tokens.map(({ tokenHash }) => tokenHash) } }
      })
  })
}

async function deleteSessions (
  database: Database,
  column: 'expiresAt' | 'revokedAt',
  before: Date
): Promise<void> {
  await deleteInBatches(before, {
    find: async (times, take) =>
      await database.session.findMany({
        where: { [column]: times },
        orderBy: { [column]: 'asc' },
        take,
        select: { id: true, expiresAt: true, revokedAt: true }
      }),
    timeOf: (session) => session[column],
    async remove (sessions) {
      const ids = sessions.map(({ id }) => id)
      await deleteTokensOf(database, ids)
      await database.session.deleteMany({ where: { id: { in: ids } } })
    }
  })
}

/** Deletes the refresh tokens of sessions, which would else go with them in one statement, however many. */
async function deleteTokensOf ({ refreshToken }: Database, sessionIds: string[]): Promise<void> {
  for (let tokens; tokens === undefined || tokens.length === BATCH_SIZE;) {
    tokens = await refreshToken.findMany({
      where: { sessionId: { in: sessionIds } },
      take: BATCH_SIZE,
      select: { tokenHash: true }
    })
    await refreshToken.deleteMany({ where: { tokenHash: { in: tokens.map(({ tokenHash }) => tokenHash) } } })
  }
}

/** Deletes limits that have no effect any more. The table is small: it has the addresses of recent mails. */
async function deleteMailLimits ({ mailLimit }: Database, before: Date): Promise<void> {
  for (let kept = 0;;) {
    const limits = await mailLimit.findMany({
      orderBy: [{ addressHash: 'asc' }, { kind: 'asc' }],
      skip: kept,
      take: BATCH_SIZE
    })
    for (const { addressHash, kind, queuedAt } of limits) {
      const last = queuedAt.at(-1)
      if (last !== undefined && last >= before) kept++
      else await mailLimit.deleteMany({ where: { addressHash, kind, queuedAt: { equals: queuedAt } } })
    }
    if (limits.length < BATCH_SIZE) return
  }
}

/** Deletes ended sessions, and what has expired, every hour, in one process. */
export function startSweeps (app: FastifyInstance): void {
  runInOneProcess(
    app,
    { name: 'account_sweep', intervalMs: HOUR_MS },
    async () =>
      await sweepExpired(app.database).catch((error: unknown) =>
        app.log.warn({ err: error }, 'ended sessions could not be deleted; trying again in an hour')
      )
  )
}
