import { statement, type StatementRunner } from '../../../infra/postgres/statement.ts'
import { noticeSql } from '../mail/mail-sql.ts'
import { CHANGED, revocationSql, revokeNewerAccess, type Change,
  type EndedSessions } from '../revocation-repository.ts'
import { IS_AUTHORIZED, type Authority } from '../user-repository.ts'

// The password, what it revokes and the notice are committed together, if the proof still holds. The command
// line runs it without Prisma.
const CHANGE = statement<Change>(`
  WITH account AS (SELECT id FROM users WHERE ${IS_AUTHORIZED} FOR NO KEY UPDATE), changed AS (
    UPDATE users SET password_hash = :newPasswordHash
    FROM account WHERE users.id = account.id RETURNING ${CHANGED}
  ), ${
  noticeSql('password_changed', 'changed', ':hasMail::boolean', {
    details: "jsonb_build_object('session_kept', :sessionId::uuid IS NOT NULL)"
  })
}, ${revocationSql("kind = 'password_reset'")}`)

/**
 * Changes the password of an account. Revokes its sessions, except that of the authority, its keys and the
 * links that reset the password.
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
