import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import type { LinkKind } from './mail/mail-sql.ts'
import type { EndedSessions } from './sessions/session-repository.ts'

// A new password and a confirmed address end what gave access to the account before. One statement does all
// of that. A sign-in that was under way may still have started a session, which a second statement ends.

/** A change that ends all sessions and keys which were made before. */
export interface Change extends EndedSessions {
  /** Every session and every key that was made up to this time ends. */
  readonly changedAt: Date
}

/**
 * The columns that `changed`, the UPDATE of a user, has to return for endAccessSql(). The times of sessions
 * and keys are rounded to milliseconds, so this time lies a little later.
 */
export const CHANGED = "users.id, users.email, clock_timestamp() + interval '2 ms' AS at"

/**
 * Returns tables of a WITH clause, and the SELECT of a Change. They end the sessions and links, and delete
 * the keys, of the user in the table `changed`.
 *
 * @param keptSession a placeholder
 * @param links a condition for the links that end
 */
export const endAccessSql = (keptSession: string, links: string): string => `
  ended AS (
    UPDATE sessions SET revoked_at = now() FROM changed
    WHERE user_id = changed.id AND revoked_at IS NULL AND expires_at > now()
      AND sessions.id IS DISTINCT FROM ${keptSession}::uuid
    RETURNING sessions.id
  ), keys AS (
    DELETE FROM api_keys USING changed WHERE user_id = changed.id
  ), links AS (
    UPDATE mail_links SET mail_id = NULL, token_hash = NULL, expires_at = NULL FROM changed
    WHERE user_id = changed.id AND ${links}
  )
  SELECT id, email, at AS "changedAt", (SELECT count(*)::integer FROM ended) AS "sessionsEnded" FROM changed`

/**
 * Returns a SELECT of the `id` of the user who got a link. Of two requests with one token, the second waits
 * for the first, and then finds the token gone.
 *
 * @param tokenHash a placeholder
 */
export const linkOwnerSql = (kind: LinkKind, tokenHash: string): string =>
  `SELECT users.id FROM users JOIN mail_links link ON link.user_id = users.id
  WHERE link.token_hash = ${tokenHash} AND link.kind = '${kind}' AND link.expires_at > now()
  FOR NO KEY UPDATE OF users FOR UPDATE OF link`

const END_ACCESS = statement<object>(`
  WITH keys AS (
    DELETE FROM api_keys WHERE user_id = $1::integer AND created_at <= $3::timestamptz
  )
  UPDATE sessions SET revoked_at = now()
  WHERE user_id = $1::integer AND id IS DISTINCT FROM $2::uuid AND created_at <= $3::timestamptz AND revoked_at IS NULL`)

/** Ends the user's sessions and deletes the keys that were made until `madeUntil`. Keeps `keptSession`. */
export async function endAccess (
  database: StatementRunner,
  userId: number,
  madeUntil: Date | 'infinity' = 'infinity',
  keptSession?: string
): Promise<void> {
  await database.run(END_ACCESS, [userId, keptSession ?? null, madeUntil])
}

/** Ends what was made while the statement of a change ran, except `keptSession`. */
export async function endOlder (
  database: StatementRunner,
  rows: readonly Change[],
  keptSession?: string
): Promise<EndedSessions | undefined> {
  const changed = rows[0]
  if (changed !== undefined) await endAccess(database, changed.id, changed.changedAt, keptSession)
  return changed
}
