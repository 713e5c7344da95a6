import { BATCH_SIZE, deleteInBatches, type Database } from '../../infra/postgres/database.ts'
import { OLDEST } from '../../http/pagination.ts'
import { deletedEmail, lockAccount, queueNotice, revokeAccess, type Authority } from '../accounts/index.ts'

// The deletion of an account begins with a transaction, which takes away its e-mail address, password,
// sessions, keys and preview links. The rows that take longer follow in batches
// (docs/adr/0023-deleting-accounts.md).

const DELETIONS_PER_QUERY = 100

/**
 * Begins the deletion of an account. From then on the account can't be used, and its e-mail address is free.
 *
 * @param hasMail whether a mail tells the user
 * @returns the id of the user; undefined when the password or the session is no longer valid, or there is no
 *   such account
 */
export async function beginDeletion (
  database: Database,
  authority: Authority,
  hasMail: boolean
): Promise<number | undefined> {
  return await database.$transaction(async (transaction) => {
    const user = await lockAccount(transaction, authority)
    if (user === undefined) return undefined
    const { id, email } = user
    await transaction.accountDeletion.create({ data: { userId: id } })
    await transaction.user.update({ where: { id }, data: { email: deletedEmail(id), passwordHash: '' } })
    await revokeAccess(transaction, id)
    await transaction.mail.deleteMany({ where: { userId: id } })
    await transaction.mailLink.deleteMany({ where: { userId: id } })
    await transaction.webhook.updateMany({ where: { userId: id }, data: { active: false } })
    if (hasMail) await queueNotice(transaction, 'account_deleted', { email })
    return id
  })
}

/** A deletion that no process works on. */
const unclaimed = () => ({ OR: [{ claimedUntil: null }, { claimedUntil: { lt: new Date() } }] })

/** Counts the unfinished deletions, and lists the users of those that no process works on. */
export async function findBegunDeletions (
  database: Database
): Promise<{ unfinishedCount: number, unclaimed: number[] }> {
  const users: number[] = []
  for (;;) {
    const found = await database.accountDeletion.findMany({
      where: { ...unclaimed(), userId: { gt: users.at(-1) ?? 0 } },
      orderBy: { userId: 'asc' },
      take: DELETIONS_PER_QUERY,
      select: { userId: true }
    })
    users.push(...found.map(({ userId }) => userId))
    if (found.length < DELETIONS_PER_QUERY) break
  }
  return { unfinishedCount: await database.accountDeletion.count(), unclaimed: users }
}

/** How long a claim on a deletion holds, unless it is renewed. */
export const CLAIM_MS = 15 * 1000

/** Claims a deletion for this process. @returns false when another process works on it */
export async function claimDeletion (database: Database, userId: number): Promise<boolean> {
  const data = { claimedUntil: new Date(Date.now() + CLAIM_MS) }
  const { count } = await database.accountDeletion.updateMany({ where: { userId, ...unclaimed() }, data })
  return count > 0
}

/** Extends the claim of this process. `until` = null gives it up. */
export async function extendClaim (
  database: Database,
  userId: number,
  until: Date | null = new Date(Date.now() + CLAIM_MS)
): Promise<void> {
  await database.accountDeletion.updateMany({ where: { userId }, data: { claimedUntil: until } })
}

/**
 * Deletes the row of a user whose deletion has begun, with the sessions. Its pages and assets must be gone.
 *
 * @returns false when the row was gone already
 */
export async function deleteUser (database: Database, userId: number): Promise<boolean> {
  const { outboxMessage, refreshToken, session, user, webhook } = database
  // Refresh tokens and messages go in batches before the user, because there may be any number of them.
  for (let after = OLDEST;;) {
    const where = { userId, id: { gt: after } }
    const query = { where, orderBy: { id: 'asc' }, take: BATCH_SIZE, select: { id: true } } as const
    const ids = (await session.findMany(query)).map(({ id }) => id)
    await deleteInBatches(refreshToken, { sessionId: { in: ids } })
    if (ids.length < BATCH_SIZE) break
    after = ids.at(-1) as string
  }
  const webhooks = await webhook.findMany({ where: { userId }, select: { id: true } })
  await deleteInBatches(outboxMessage, { target: { in: webhooks.map(({ id }) => id) } })
  const { count } = await user.deleteMany({ where: { id: userId, email: deletedEmail(userId) } })
  return count > 0
}
