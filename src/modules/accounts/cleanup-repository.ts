import type { FastifyInstance } from 'fastify'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { OUTDATED_LIMITS } from './mail/mail-sql.ts'

// Deletes what has ended or expired.

const HOUR_MS = 60 * 60 * 1000
/** The most rows that one statement deletes. It takes a small part of the statement timeout. */
const SWEEP_BATCH = 1000
/** Ended sessions that are no longer needed to recognise a replay. */
const ENDED = "sessions.expires_at < now() OR sessions.revoked_at < now() - interval '1 day'"

/** Deletes the rows whose keys `batch` selects. Returns one row for each deleted row. */
const sweep = (table: string, key: string, batch: string) =>
  statement<object>(`DELETE FROM ${table} WHERE ${key} IN (${batch} SKIP LOCKED) RETURNING 1 AS deleted`)

/** Refresh tokens go first, because deleting a session would cascade to any number of them. */
const SWEEPS = [
  sweep(
    'refresh_tokens',
    'token_hash',
    `SELECT token_hash FROM refresh_tokens WHERE expires_at < now() LIMIT ${SWEEP_BATCH} FOR UPDATE`
  ),
  sweep(
    'refresh_tokens',
    'token_hash',
    `SELECT token_hash FROM refresh_tokens JOIN sessions ON sessions.id = session_id WHERE ${ENDED}
     LIMIT ${SWEEP_BATCH} FOR UPDATE OF refresh_tokens`
  ),
  sweep('sessions', 'id', `SELECT id FROM sessions WHERE ${ENDED} LIMIT ${SWEEP_BATCH} FOR UPDATE`),
  sweep(
    'mail_limits',
    '(address_hash, kind)',
    `SELECT address_hash, kind FROM mail_limits WHERE ${OUTDATED_LIMITS} LIMIT ${SWEEP_BATCH} FOR UPDATE`
  ),
  // The owner sees for a while why a program is refused.
  sweep(
    'api_keys',
    'id',
    `SELECT id FROM api_keys WHERE expires_at < now() - interval '90 days' LIMIT ${SWEEP_BATCH} FOR UPDATE`
  )
]

/**
 * Deletes ended sessions, refresh tokens, limits of mails and old expired keys in batches. Concurrent sweeps
 * delete different rows.
 */
export async function sweepExpired (database: StatementRunner): Promise<void> {
  for (const statement of SWEEPS) while ((await database.run(statement, [])).length === SWEEP_BATCH);
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
