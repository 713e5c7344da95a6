import { statement, type StatementRunner } from '../../../infra/postgres/statement.ts'
import { CHANGED, endAccessSql, endOlder, linkOwnerSql, type Change } from '../revocation-repository.ts'
import { noticeSql } from '../mail/mail-sql.ts'
import { hasSessionSql, type PasswordProof } from '../user-repository.ts'
import type { EndedSessions } from '../sessions/session-repository.ts'

interface NewHash {
  /** The hash of the new password. */
  readonly passwordHash: string
  /** Whether the service sends mail. */
  readonly hasMail: boolean
}

/**
 * Returns a statement that changes a password, ends the sessions and links of the user, and deletes the keys.
 * Its first parameters are the new hash, a session that is kept, and whether a mail is sent.
 *
 * @param account a SELECT of the `id` of the user, which locks the user
 * @param isReset whether a mailed link allows it, which confirms the address
 */
const changeSql = (account: string, isReset = false): string => `
  WITH account AS (${account}), changed AS (
    UPDATE users SET password_hash = $1 ${
  isReset ? ', email_confirmed_at = COALESCE(users.email_confirmed_at, now())' : ''
}
    FROM account WHERE users.id = account.id RETURNING ${CHANGED}
  ), ${
  noticeSql('password_changed', 'changed', '$3::boolean', {
    details: `jsonb_build_object('session_kept', $2::uuid IS NOT NULL)`
  })
}, ${endAccessSql('$2', isReset ? 'true' : "kind = 'password_reset'")}`

const CHANGE_BY_EMAIL = statement<
  Change
>(changeSql('SELECT id FROM users WHERE email = $4 FOR NO KEY UPDATE'))
const CHANGE_OWN = statement<
  Change
>(changeSql(`SELECT id FROM users WHERE id = $4::integer AND password_hash = $5 AND ${
  hasSessionSql('$2')
} FOR NO KEY UPDATE`))
const CHANGE_BY_LINK = statement<Change>(changeSql(linkOwnerSql('password_reset', '$4'), true))

/**
 * Changes the password of an account, for the command line. Ends all its sessions, keys and reset links.
 *
 * @param email normalised
 * @returns undefined when there is no such account
 */
export async function setPassword (
  database: StatementRunner,
  email: string,
  { passwordHash, hasMail }: NewHash
): Promise<EndedSessions | undefined> {
  return await endOlder(database, await database.run(CHANGE_BY_EMAIL, [passwordHash, null, hasMail, email]))
}

/**
 * Changes the password of a user who has given the old one. Ends all other sessions, all keys and all reset
 * links.
 *
 * @param own the proof of the old password, with the session that is kept
 * @returns undefined when the password or the session is no longer valid
 */
export async function changeOwnPassword (
  database: StatementRunner,
  own: PasswordProof,
  { passwordHash, hasMail }: NewHash
): Promise<EndedSessions | undefined> {
  const rows = await database.run(CHANGE_OWN, [passwordHash, own.sessionId, hasMail, own.userId,
    own.passwordHash])
  return await endOlder(database, rows, own.sessionId)
}

/**
 * Changes the password of a user who has got a link by mail. Confirms the address, and ends all sessions,
 * keys and links.
 *
 * @returns undefined when the link can't be used any more
 */
export async function resetPassword (
  database: StatementRunner,
  tokenHash: Uint8Array,
  passwordHash: string
): Promise<EndedSessions | undefined> {
  return await endOlder(database, await database.run(CHANGE_BY_LINK, [passwordHash, null, true, tokenHash]))
}
