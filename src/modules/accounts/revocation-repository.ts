import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { noticeSql } from './mail/mail-sql.ts'
import { ALIVE, findUser, IS_AUTHORIZED, type Authority } from './user-repository.ts'

// A new password and a confirmed address revoke what gave access to the account before. One statement does
// all of that. A sign-in that was under way may still have started a session, which a second one revokes.

/** An account and the number of its sessions that were revoked. */
export interface EndedSessions {
  readonly id: number
  readonly email: string
  readonly sessionsEnded: number
}

/** A change that revokes all sessions, keys and preview links which were created before. */
export interface Change extends EndedSessions {
  /** Every session, key and preview link that was created up to this time ends. */
  readonly changedAt: Date
}

/**
 * The columns that `changed`, the UPDATE of a user, has to return for revocationSql(). The times of sessions
 * and keys are rounded to milliseconds, so this time lies a little later.
 */
export const CHANGED = "users.id, users.email, clock_timestamp() + interval '2 ms' AS at"

/**
 * Returns tables of a WITH clause, and the SELECT of a Change. They revoke the sessions, except `:sessionId`,
 * and the links of the user in the table `changed`, and delete the keys and the preview links.
 *
 * @param links a condition for the links that end
 */
export const revocationSql = (links: string): string => `
  revoked AS (
    UPDATE sessions s SET revoked_at = now() FROM changed
    WHERE user_id = changed.id AND ${ALIVE} AND s.id IS DISTINCT FROM :sessionId::uuid
    RETURNING s.id
  ), keys AS (
    DELETE FROM api_keys USING changed WHERE user_id = changed.id
  ), previews AS (
    DELETE FROM preview_links USING changed WHERE user_id = changed.id
  ), links AS (
    UPDATE mail_links SET mail_id = NULL, token_hash = NULL, expires_at = NULL FROM changed
    WHERE user_id = changed.id AND ${links}
  )
  SELECT id, email, at AS "changedAt", (SELECT count(*)::integer FROM revoked) AS "sessionsEnded"
  FROM changed`

// One statement. PostgreSQL's clock tells which sessions are alive.
const REVOKE = statement<{ id: string }>(`
  WITH keys AS (
    DELETE FROM api_keys
    WHERE :withKeys::boolean AND user_id = :userId::integer AND created_at <= :createdUntil::timestamptz
  ), previews AS (
    DELETE FROM preview_links
    WHERE :withKeys::boolean AND user_id = :userId::integer AND created_at <= :createdUntil::timestamptz
  )
  UPDATE sessions s SET revoked_at = now()
  WHERE user_id = :userId::integer AND created_at <= :createdUntil::timestamptz AND ${ALIVE}
    AND id IS DISTINCT FROM :keptSession::uuid
  RETURNING id`)

const CHANGE_NOTICE = noticeSql('password_changed', 'changed', ':hasMail::boolean', {
  details: "jsonb_build_object('session_kept', :sessionId::uuid IS NOT NULL)"
})

// One statement commits the password, what it revokes and the notice together, if the proof still holds.
const CHANGE = statement<Change>(`
  WITH account AS (SELECT id FROM users WHERE ${IS_AUTHORIZED} FOR NO KEY UPDATE), changed AS (
    UPDATE users SET password_hash = :newPasswordHash
    FROM account WHERE users.id = account.id RETURNING ${CHANGED}
  ), ${CHANGE_NOTICE}, ${revocationSql("kind = 'password_reset'")}`)

/**
 * Revokes the user's sessions and deletes the keys and preview links that were created until then. Keeps
 * `keptSession`.
 */
export async function revokeAccess (
  database: StatementRunner,
  userId: number,
  createdUntil: Date | 'infinity' = 'infinity',
  keptSession: string | null = null
): Promise<void> {
  await database.run(REVOKE, { userId, createdUntil, keptSession, withKeys: true })
}

/** Ends sessions, keys and preview links created during the change, except `keptSession`. */
export async function revokeNewerAccess (
  database: StatementRunner,
  [changed]: readonly Change[],
  keptSession: string | null
): Promise<EndedSessions | undefined> {
  if (changed !== undefined) await revokeAccess(database, changed.id, changed.changedAt, keptSession)
  return changed
}

/**
 * Changes the password of an account. Revokes its sessions, except that of the authority, its keys, its
 * preview links and the links that reset the password.
 *
 * @param options `newPasswordHash` is the hash of the new password; `hasMail` whether the service sends mail
 * @returns undefined when the password or the session is no longer valid, or there is no such account
 */
export async function setPassword (
  database: StatementRunner,
  authority: Authority,
  options: { readonly newPasswordHash: string, readonly hasMail: boolean }
): Promise<EndedSessions | undefined> {
  const changed = await database.run(CHANGE, { ...authority, ...options })
  return await revokeNewerAccess(database, changed, authority.sessionId)
}

/** Revokes all sessions of a user except this one. @returns how many it revoked */
export async function revokeSessions (
  database: StatementRunner,
  userId: number,
  keptSession: string | null
): Promise<number> {
  const revoked = await database.run(REVOKE, {
    userId,
    createdUntil: 'infinity',
    keptSession,
    withKeys: false
  })
  return revoked.length
}

/**
 * Revokes all sessions of an account.
 *
 * @param email normalised
 * @returns undefined when there is no such account
 */
export async function signOutEverywhere (
  database: StatementRunner,
  email: string
): Promise<EndedSessions | undefined> {
  const user = await findUser(database, email)
  return user && { id: user.id, email, sessionsEnded: await revokeSessions(database, user.id, null) }
}
