import type { FastifyInstance } from 'fastify'
import { BATCH_SIZE, deleteInBatches, deleteOlder, type Database } from '../../infra/postgres/database.ts'
import { runInOneProcess } from '../../infra/postgres/shared-work.ts'

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS
/** How long expired keys are shown, so that their owner sees why a program is refused. */
const KEYS_SHOWN_MS = 90 * DAY_MS
/** How long a revoked session is kept to recognise a replay. */
const REVOKED_KEPT_MS = DAY_MS

/** Deletes ended sessions, refresh tokens, limits of mails and old expired keys in batches. */
export async function sweepExpired (database: Database): Promise<void> {
  const now = new Date()
  await deleteOlder(database.refreshToken, 'expiresAt', now)
  await deleteSessions(database, 'expiresAt', now)
  await deleteSessions(database, 'revokedAt', new Date(now.getTime() - REVOKED_KEPT_MS))
  await deleteOlder(database.apiKey, 'expiresAt', new Date(now.getTime() - KEYS_SHOWN_MS))
  // A limit whose last mail is an hour old has no effect any more. The table is small: it has recent mails.
  await database.$executeRaw`
    DELETE FROM mail_limits WHERE queued_at[cardinality(queued_at)] < now() - interval '1 hour'`
}

/** The tokens of sessions are deleted before them. Else they would go in one statement, however many. */
async function deleteSessions (
  { refreshToken, session }: Database,
  column: 'expiresAt' | 'revokedAt',
  before: Date
): Promise<void> {
  await deleteOlder(session, column, before, undefined, async (times) => {
    const ended = await session.findMany({
      where: { [column]: times },
      take: BATCH_SIZE,
      select: { id: true }
    })
    await deleteInBatches(refreshToken, { sessionId: { in: ended.map(({ id }) => id) } })
  })
}

/** Deletes ended sessions, and what has expired, every hour, in one process. */
export function startSweeps (app: FastifyInstance): void {
  runInOneProcess(
    app,
    { name: 'account_sweep', intervalMs: HOUR_MS },
    async () => await sweepExpired(app.database)
  )
}
