import type { FastifyInstance } from 'fastify'
import type { Database } from '../../infra/postgres/database.ts'
import { statement } from '../../infra/postgres/statement.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { OUTDATED_LIMITS } from './mail/mail-sql.ts'

const HOUR_MS = 60 * 60 * 1000
/** The most rows of a kind that one statement deletes. It takes a small part of the statement timeout. */
const BATCH = 1000
/** How long expired keys are shown, so that their owner sees why a program is refused. */
const SHOWN_DAYS = 90
/** Ended sessions that are no longer needed to recognise a replay. */
const ENDED = "sessions.expires_at < now() OR sessions.revoked_at < now() - interval '1 day'"

// With SKIP LOCKED, which Prisma hasn't, concurrent sweeps delete different rows. Refresh tokens go before
// their session, because deleting it would cascade to any number of them.
const SWEEP = statement<{ deleted: number }>(`
  WITH expired_tokens AS (
    DELETE FROM refresh_tokens WHERE token_hash IN (
      SELECT token_hash FROM refresh_tokens WHERE expires_at < now() LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
    RETURNING 1
  ), ended_tokens AS (
    DELETE FROM refresh_tokens WHERE token_hash IN (
      SELECT token_hash FROM refresh_tokens JOIN sessions ON sessions.id = session_id WHERE ${ENDED}
      LIMIT ${BATCH} FOR UPDATE OF refresh_tokens SKIP LOCKED)
    RETURNING 1
  ), ended_sessions AS (
    DELETE FROM sessions WHERE id IN (
      SELECT id FROM sessions
      WHERE (${ENDED}) AND NOT EXISTS (SELECT FROM refresh_tokens WHERE session_id = sessions.id)
      LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
    RETURNING 1
  ), limits AS (
    DELETE FROM mail_limits WHERE (address_hash, kind) IN (
      SELECT address_hash, kind FROM mail_limits WHERE ${OUTDATED_LIMITS}
      LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
    RETURNING 1
  ), keys AS (
    DELETE FROM api_keys WHERE id IN (
      SELECT id FROM api_keys WHERE expires_at < now() - interval '${SHOWN_DAYS} days'
      LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
    RETURNING 1
  )
  SELECT count(*)::integer AS deleted FROM (
    TABLE expired_tokens UNION ALL TABLE ended_tokens UNION ALL TABLE ended_sessions
    UNION ALL TABLE limits UNION ALL TABLE keys) AS rows`)

/** Deletes ended sessions, refresh tokens, limits of mails and old expired keys in batches. */
export async function sweepExpired (database: Database): Promise<void> {
  let deleted: number | undefined
  do deleted = (await database.run(SWEEP))[0]?.deleted
  while (deleted)
}

/** Deletes ended sessions, and what has expired, every hour until the app closes. */
export function startSweeps (app: FastifyInstance): void {
  runPeriodically(
    app,
    { intervalMs: HOUR_MS },
    async () =>
      await sweepExpired(app.database).catch((error: unknown) =>
        app.log.warn({ err: error }, 'ended sessions could not be deleted; trying again in an hour')
      )
  )
}
