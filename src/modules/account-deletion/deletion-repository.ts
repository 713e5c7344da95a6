import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { DELETED_EMAIL, IS_AUTHORIZED, IS_BEING_DELETED, noticeSql,
  type Authority } from '../accounts/index.ts'

// The deletion of an account begins with one statement, which takes away its e-mail address, password,
// sessions, keys and preview links. The rows that take longer follow in batches
// (docs/adr/0023-deleting-accounts.md).

const DELETIONS_PER_QUERY = 100
/** The most refresh tokens, and messages of webhooks, that one statement deletes. */
const ROWS_PER_STATEMENT = 1000

// One statement takes the account away, if the proof still holds.
const BEGIN = statement<{ id: number }>(`
  WITH account AS (
    SELECT id, email FROM users WHERE ${IS_AUTHORIZED} AND NOT ${IS_BEING_DELETED} FOR UPDATE
  ), begun AS (
    INSERT INTO account_deletions (user_id) SELECT id FROM account
  ), renamed AS (
    UPDATE users SET email = ${DELETED_EMAIL}, password_hash = '' FROM account WHERE users.id = account.id
  ), revoked AS (
    UPDATE sessions SET revoked_at = now() FROM account WHERE user_id = account.id AND revoked_at IS NULL
  ), keys AS (
    DELETE FROM api_keys USING account WHERE user_id = account.id
  ), previews AS (
    DELETE FROM preview_links USING account WHERE user_id = account.id
  ), links AS (
    DELETE FROM mail_links USING account WHERE user_id = account.id
  ), waiting AS (
    DELETE FROM mails USING account WHERE user_id = account.id
  ), paused AS (
    UPDATE webhooks SET active = false FROM account WHERE user_id = account.id
  ), ${noticeSql('account_deleted', 'account', ':hasMail::boolean', { userId: 'NULL' })}
  SELECT id FROM account`)

// One statement, because Prisma can't limit what it deletes by a join. Refresh tokens and messages go in
// batches before the user, because there may be any number of them.
const DELETE_USER = statement<{ isLastBatch: boolean, isDeleted: boolean }>(`
  WITH tokens AS (
    DELETE FROM refresh_tokens WHERE token_hash IN (
      SELECT token_hash FROM refresh_tokens JOIN sessions ON sessions.id = session_id
      WHERE user_id = :userId::integer LIMIT ${ROWS_PER_STATEMENT} FOR UPDATE OF refresh_tokens)
    RETURNING token_hash
  ), messages AS (
    DELETE FROM outbox WHERE key IN (
      SELECT key FROM outbox JOIN webhooks ON webhooks.id = target
      WHERE webhooks.user_id = :userId::integer LIMIT ${ROWS_PER_STATEMENT} FOR UPDATE OF outbox)
    RETURNING key
  ), batch AS (
    SELECT (SELECT count(*) FROM tokens) < ${ROWS_PER_STATEMENT} AND
      (SELECT count(*) FROM messages) < ${ROWS_PER_STATEMENT} AS "isLast"
  ), deleted AS (
    DELETE FROM users USING batch WHERE id = :userId::integer AND ${IS_BEING_DELETED} AND "isLast"
    RETURNING id
  )
  SELECT "isLast" AS "isLastBatch", EXISTS (SELECT FROM deleted) AS "isDeleted" FROM batch`)

/**
 * Begins the deletion of an account. From then on the account can't be used, and its e-mail address is free.
 *
 * @param hasMail whether a mail tells the user
 * @returns the id of the user; undefined when the password or the session is no longer valid, or there is no
 *   such account
 */
export async function beginDeletion (
  database: StatementRunner,
  authority: Authority,
  hasMail: boolean
): Promise<number | undefined> {
  return (await database.run(BEGIN, { ...authority, hasMail }))[0]?.id
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
export async function deleteUser (database: StatementRunner, userId: number): Promise<boolean> {
  for (;;) {
    const [batch] = await database.run(DELETE_USER, { userId })
    if (batch?.isLastBatch !== false) return batch?.isDeleted === true
  }
}
