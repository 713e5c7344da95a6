import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { queueNotice, type LinkKind } from './mail/queue-repository.ts'
import { findUser, lockAccount, type Authority } from './user-repository.ts'

/** An account and the number of its sessions that were revoked. */
export interface EndedSessions {
  readonly id: number
  readonly email: string
  readonly sessionsEnded: number
}

/**
 * Revokes all sessions of a user except one; also those that have expired, because the clock of this process
 * may be wrong.
 *
 * @returns how many it revoked
 */
export async function revokeSessions (
  { session }: Transaction,
  userId: number,
  keptSession: string | null
): Promise<number> {
  const others = keptSession === null ? {} : { id: { not: keptSession } }
  const { count } = await session.updateMany({
    where: { userId, revokedAt: null, ...others },
    data: { revokedAt: new Date() }
  })
  return count
}

/**
 * Ends what gives access to a locked account: its keys, its preview links, and its sessions except one.
 *
 * @returns how many sessions it revoked
 */
export async function revokeAccess (
  transaction: Transaction,
  userId: number,
  keptSession: string | null = null
): Promise<number> {
  await transaction.apiKey.deleteMany({ where: { userId } })
  await transaction.previewLink.deleteMany({ where: { userId } })
  return await revokeSessions(transaction, userId, keptSession)
}

/** Ends the link of a kind that was mailed to a user, or would be. */
export async function endLink ({ mailLink }: Transaction, userId: number, kind: LinkKind): Promise<void> {
  const data = { mailId: null, tokenHash: null, expiresAt: null }
  await mailLink.updateMany({ where: { userId, kind }, data })
}

/**
 * Changes the password of an account. Revokes its sessions, except that of the authority, its keys, its
 * preview links and the links that reset the password.
 *
 * @param options `newPasswordHash` is the hash of the new password; `hasMail` whether the service sends mail
 * @returns undefined when the password or the session is no longer valid, or there is no such account
 */
export async function setPassword (
  database: Database,
  authority: Authority,
  { newPasswordHash, hasMail }: { readonly newPasswordHash: string, readonly hasMail: boolean }
): Promise<EndedSessions | undefined> {
  return await database.$transaction(async (transaction) => {
    const user = await lockAccount(transaction, authority)
    if (user === undefined) return undefined
    const { id, email } = user
    const { sessionId } = authority
    await transaction.user.update({ where: { id }, data: { passwordHash: newPasswordHash } })
    await endLink(transaction, id, 'password_reset')
    const details = { session_kept: sessionId !== null }
    if (hasMail) await queueNotice(transaction, 'password_changed', user, details)
    return { id, email, sessionsEnded: await revokeAccess(transaction, id, sessionId) }
  })
}

/**
 * Revokes all sessions of an account.
 *
 * @param email normalised
 * @returns undefined when there is no such account
 */
export async function signOutEverywhere (
  database: Database,
  email: string
): Promise<EndedSessions | undefined> {
  const user = await findUser(database, email)
  return user && { id: user.id, email, sessionsEnded: await revokeSessions(database, user.id, null) }
}
