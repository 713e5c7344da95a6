import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { linkMailSql, queueNotice, type LinkKind } from './mail/queue-repository.ts'
import { endLink, revokeAccess, type EndedSessions } from './revocation-repository.ts'
import { lockAccount, operatorOf } from './user-repository.ts'

// Asks for the links in mails, and uses them.

// One statement, which waits for no parallel request: a slower response would show that there is an account.
// FOR KEY SHARE locks the user first and the link second, as a deletion does. Another order could deadlock.
const REQUEST = statement<{ id: number }>(`
  WITH account AS (
    SELECT id, email FROM users
    WHERE email = :email AND (:kind = 'password_reset' OR email_confirmed_at IS NULL)
      AND pg_try_advisory_xact_lock(hashtextextended(:kind || ' ' || email, 0))
    FOR KEY SHARE
  ), ${linkMailSql(':kind', 'account')}
  SELECT id FROM users WHERE email = :email`)

/**
 * Queues a mail with a link, if there is such an account, unless it would confirm an address again.
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

/** Finds the user who got a link. @returns undefined when the link can't be used any more */
export async function findLinkOwner (
  { user }: Transaction,
  kind: LinkKind,
  tokenHash: Uint8Array<ArrayBuffer>
): Promise<{ email: string } | undefined> {
  const mailLinks = { some: { tokenHash, kind, expiresAt: { gt: new Date() } } }
  return await user.findFirst({ where: { mailLinks }, select: { email: true } }) ?? undefined
}

/**
 * Uses a link that was mailed: confirms the address, and changes the password if there is a new one. Ends
 * what gave access before, because somebody else may have signed up with the address, or know the password:
 * all keys, preview links and sessions except `keptSession`, which has no effect if it is another user's.
 *
 * @returns undefined when the link can't be used any more
 */
export async function useLink (
  database: Database,
  kind: LinkKind,
  tokenHash: Uint8Array<ArrayBuffer>,
  { newPasswordHash, keptSession = null }: { newPasswordHash?: string, keptSession?: string | null }
): Promise<EndedSessions | undefined> {
  const owner = await findLinkOwner(database, kind, tokenHash)
  return owner && await database.$transaction(async (transaction) => {
    const user = await lockAccount(transaction, operatorOf(owner.email))
    // Another request may have used the link before this one had the lock.
    if (user === undefined || await findLinkOwner(transaction, kind, tokenHash) === undefined) {
      return undefined
    }
    const { id, email, emailConfirmedAt } = user
    const passwordHash = newPasswordHash ?? user.passwordHash
    const data = { passwordHash, emailConfirmedAt: emailConfirmedAt ?? new Date() }
    await transaction.user.update({ where: { id }, data })
    if (newPasswordHash !== undefined) {
      await queueNotice(transaction, 'password_changed', user)
      await endLink(transaction, id, 'password_reset')
    }
    await endLink(transaction, id, 'email_confirmation')
    return { id, email, sessionsEnded: await revokeAccess(transaction, id, keptSession) }
  })
}
