import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { linkMailSql, noticeSql, type LinkKind } from './mail/mail-sql.ts'
import { CHANGED, revocationSql, revokeNewerAccess, type Change,
  type EndedSessions } from './revocation-repository.ts'

// The links in mails: asks for them, and uses them.

// One statement, and parallel requests don't wait for each other: slower responses would show that an account
// exists. FOR KEY SHARE locks the user before the link, in the order of a deletion, against deadlocks.
const REQUEST = statement<{ id: number }>(`
  WITH account AS (
    SELECT id, email FROM users
    WHERE email = :email AND (:kind = 'password_reset' OR email_confirmed_at IS NULL)
      AND pg_try_advisory_xact_lock(hashtextextended(:kind || ' ' || email, 0))
    FOR KEY SHARE
  ), ${linkMailSql(':kind', 'account')}
  SELECT id FROM users WHERE email = :email`)

// One statement decides which of two uses of a link succeeds: the second waits for the first, and finds the
// token gone. The change and what it revokes are committed together.
const USE = statement<Change>(`
  WITH account AS (
    SELECT users.id FROM users JOIN mail_links link ON link.user_id = users.id
    WHERE link.token_hash = :tokenHash AND link.kind = :kind AND link.expires_at > now()
    FOR NO KEY UPDATE OF users FOR UPDATE OF link
  ), changed AS (
    UPDATE users SET password_hash = COALESCE(:newPasswordHash, users.password_hash),
      email_confirmed_at = COALESCE(users.email_confirmed_at, now())
    FROM account WHERE users.id = account.id RETURNING ${CHANGED}
  ), ${noticeSql('password_changed', 'changed', ":kind = 'password_reset'")},
  ${revocationSql("(:kind = 'password_reset' OR kind = :kind)")}`)

/**
 * Queues a mail with a link, if there is such an account, unless the link would confirm a confirmed address.
 *
 * @param email normalised
 * @returns the id of the account
 */
export async function requestLink (
  database: StatementRunner,
  kind: LinkKind,
  email: string
): Promise<number | undefined> {
  return (await database.run(REQUEST, { kind, email }))[0]?.id
}

/** Finds the user who got a link. @returns null when the link can't be used any more */
export async function findLinkOwner (
  database: Database,
  kind: LinkKind,
  tokenHash: Uint8Array<ArrayBuffer>
): Promise<{ email: string } | null> {
  const mailLinks = { some: { tokenHash, kind, expiresAt: { gt: new Date() } } }
  return await database.user.findFirst({ where: { mailLinks }, select: { email: true } })
}

/**
 * Changes the password of a user who has got a link by mail. Confirms the address, and revokes all sessions,
 * keys and links.
 *
 * @returns undefined when the link can't be used any more
 */
export async function resetPassword (
  database: Database,
  tokenHash: Uint8Array,
  newPasswordHash: string
): Promise<EndedSessions | undefined> {
  const values = { kind: 'password_reset', tokenHash, newPasswordHash, sessionId: null }
  return await revokeNewerAccess(database, await database.run(USE, values), null)
}

/**
 * Confirms the address of the user who got a link. Revokes all sessions except `keptSession`, and all
 * keys, because somebody else may have signed up with the address.
 *
 * @param keptSession has no effect if it belongs to another user
 * @returns undefined when the link can't be used any more
 */
export async function confirmEmail (
  database: Database,
  tokenHash: Uint8Array,
  keptSession: string | null
): Promise<EndedSessions | undefined> {
  const values = { kind: 'email_confirmation', tokenHash, newPasswordHash: null, sessionId: keptSession }
  return await revokeNewerAccess(database, await database.run(USE, values), keptSession)
}
