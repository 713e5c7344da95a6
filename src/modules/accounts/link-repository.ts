import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { CHANGED, endAccessSql, endOlder, linkOwnerSql, type Change } from './revocation-repository.ts'
import { linkMailSql, type LinkKind } from './mail/mail-sql.ts'
import type { EndedSessions } from './sessions/session-repository.ts'

// Asks for links, and uses them. password-changes.ts uses the link that resets a password.

/** A user who has a link. */
export interface LinkOwner {
  readonly id: number
  readonly email: string
}

// FOR KEY SHARE locks the user before the link, in the order of a deletion, which could deadlock otherwise.

/**
 * Parallel requests for one account don't wait for each other, because slower answers would show that it
 * exists. One of them queues a mail.
 */
const REQUEST_RESET = statement<{ id: number }>(`
  WITH account AS (
    SELECT id, email FROM users
    WHERE email = $1 AND pg_try_advisory_xact_lock(hashtextextended('password_reset ' || email, 0))
    FOR KEY SHARE
  ),
    ${linkMailSql('password_reset', 'account')}
  SELECT id FROM users WHERE email = $1`)
const REQUEST_CONFIRMATION = statement<{ id: number }>(`
  WITH account AS (
    SELECT id, email FROM users WHERE id = $1::integer AND email_confirmed_at IS NULL FOR KEY SHARE
  ),
    ${linkMailSql('email_confirmation', 'account')}
  SELECT id FROM account`)
const FIND_OWNER = statement<LinkOwner>(`
  SELECT users.id, users.email FROM users JOIN mail_links link ON link.user_id = users.id
  WHERE link.token_hash = $1 AND link.kind = $2 AND link.expires_at > now()`)

const CONFIRM = statement<Change>(`
  WITH account AS (${linkOwnerSql('email_confirmation', '$1')}), changed AS (
    UPDATE users SET email_confirmed_at = COALESCE(users.email_confirmed_at, now())
    FROM account WHERE users.id = account.id RETURNING ${CHANGED}
  ), ${endAccessSql('$2', "kind = 'email_confirmation'")}`)

/**
 * Queues a mail with a link that resets the password, if there is such an account.
 *
 * @param email normalised
 * @returns the id of the account
 */
export async function requestReset (database: StatementRunner, email: string): Promise<number | undefined> {
  const rows = await database.run(REQUEST_RESET, [email])
  return rows[0]?.id
}

/** Queues a mail with a link that confirms the address, unless it is confirmed. */
export async function requestConfirmation (database: StatementRunner, userId: number): Promise<void> {
  await database.run(REQUEST_CONFIRMATION, [userId])
}

/** Finds the user who got a link. @returns undefined when the link can't be used any more */
export async function findLinkOwner (
  database: StatementRunner,
  kind: LinkKind,
  tokenHash: Uint8Array
): Promise<LinkOwner | undefined> {
  const rows = await database.run(FIND_OWNER, [tokenHash, kind])
  return rows[0]
}

/**
 * Confirms the address of the user who got a link. Ends all other sessions and all keys, because somebody
 * else may have signed up with the address.
 *
 * @param keptSession has no effect if it belongs to another user
 * @returns undefined when the link can't be used any more
 */
export async function confirmEmail (
  database: StatementRunner,
  tokenHash: Uint8Array,
  keptSession: string | undefined
): Promise<EndedSessions | undefined> {
  return await endOlder(database, await database.run(CONFIRM, [tokenHash, keptSession ?? null]), keptSession)
}
