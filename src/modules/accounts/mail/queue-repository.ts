import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import type { Prisma } from '../../../infra/postgres/generated/prisma/client.ts'
import type { Backlog } from '../../../infra/postgres/shared-work.ts'
import { statement } from '../../../infra/postgres/statement.ts'

// The queue of mails in the table `mails`. Single statements, so that no transaction is open while a mail is
// sent. A sender that dies leaves its claim, which lapses.

/** Mails with a link. The link of each kind that was mailed last is the only one that can be used. */
export type LinkKind = 'email_confirmation' | 'password_reset'
/** Mails that tell a user about a change of the account. */
export type NoticeKind = 'password_changed' | 'api_key_created' | 'account_deleted' | 'webhook_paused'
export type MailKind = LinkKind | NoticeKind

/** Mails with a link of one kind, and notices of one kind, that an address gets in an hour at most. */
const LINKS_PER_HOUR = 3
const NOTICES_PER_HOUR = 10

/** Returns an INSERT, which returns a row if another mail may be queued, and counts that mail. */
const limitSql = (kind: string, from: string, isOn: string, max: number): string =>
  `INSERT INTO mail_limits AS known (address_hash, kind, queued_at)
    SELECT sha256(convert_to(email, 'UTF8')), ${kind}, ARRAY[now()] FROM ${from} WHERE ${isOn}
    ON CONFLICT (address_hash, kind) DO UPDATE
      SET queued_at = (known.queued_at || now())[GREATEST(1, cardinality(known.queued_at) + 2 - ${max}):]
    WHERE cardinality(known.queued_at) < ${max} OR known.queued_at[1] <= now() - interval '1 hour'
    RETURNING kind`

// PostgreSQL's clock decides what is due, so Prisma, which fills in the time of the process, isn't used.
const QUEUE_NOTICE = `
  WITH allowed AS (
    ${limitSql('$1', '(SELECT $2::text AS email) account', 'true', NOTICES_PER_HOUR)}
  )
  INSERT INTO mails (user_id, recipient, kind, details) SELECT $3::integer, $2, kind, $4::jsonb FROM allowed`

/**
 * Queues a notice, unless there were too many in the last hour. The transaction is that of the change, so
 * that no notice is lost, and none is sent for a change that failed.
 *
 * @param user without an `id` if the notice outlives the account
 * @param details for the text
 */
export async function queueNotice (
  transaction: Transaction,
  kind: NoticeKind,
  { id: userId, email }: { readonly id?: number, readonly email: string },
  details?: Prisma.InputJsonObject
): Promise<void> {
  const detailsText = details === undefined ? null : JSON.stringify(details)
  await transaction.$executeRawUnsafe(QUEUE_NOTICE, kind, email, userId ?? null, detailsText)
}

/**
 * Returns tables of a WITH clause that queue a mail with a link, unless there were too many in the last hour.
 * The link is made when the mail is sent.
 *
 * @param kind SQL of a LinkKind
 * @param from the table with the `id` and `email` of the user
 * @param isOn a condition; without mail it must be false
 */
export const linkMailSql = (kind: string, from: string, isOn = 'true'): string =>
  `allowed AS (
    ${limitSql(kind, from, isOn, LINKS_PER_HOUR)}
  ), link AS (
    INSERT INTO mail_links (user_id, kind, mail_id)
    SELECT id, kind, gen_random_uuid() FROM ${from}, allowed
    ON CONFLICT (user_id, kind) DO UPDATE SET mail_id = excluded.mail_id
    RETURNING user_id, kind, mail_id
  ), mail AS (
    INSERT INTO mails (id, user_id, recipient, kind)
    SELECT mail_id, user_id, email, kind FROM link JOIN ${from} ON id = user_id
  )`

/** How long a mail belongs to the process that has claimed it, in seconds. */
const CLAIM_SECONDS = 60
/** How long the link in a mail can be used, from the moment of sending. */
const LINK_LIFETIME = "interval '1 hour'"

/** A mail that this process may send until its claim lapses. */
export interface ClaimedMail {
  readonly id: string
  readonly userId: number | null
  readonly recipient: string
  readonly kind: MailKind
  readonly details: any
  /** The number of this attempt, from 1. It tells whose claim it is. */
  readonly attempts: number
  readonly ageSeconds: number
  /** Whether the token of the claim can be used as the link of the mail. */
  readonly hasLink: boolean
}

// Prisma has no SKIP LOCKED, which lets several processes claim at once. The link is made with the claim, so
// that only the latest claim of a mail has a link that works.
const CLAIM = statement<ClaimedMail>(`
  WITH claimed AS (
    UPDATE mails SET due_at = now() + make_interval(secs => ${CLAIM_SECONDS}), attempts = attempts + 1
    WHERE id = (SELECT id FROM mails WHERE due_at <= now() ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, user_id, recipient, kind, details, attempts, created_at
  ), link AS (
    UPDATE mail_links SET token_hash = :tokenHash, expires_at = now() + ${LINK_LIFETIME} FROM claimed
    WHERE mail_links.user_id = claimed.user_id AND mail_links.kind = claimed.kind AND mail_id = claimed.id
    RETURNING mail_id
  )
  SELECT id, user_id AS "userId", recipient, kind, details, attempts,
    EXTRACT(epoch FROM now() - created_at)::double precision AS "ageSeconds",
    EXISTS (SELECT FROM link) AS "hasLink"
  FROM claimed`)

/**
 * Claims the mail that is due first. If it carries a link, the token can be used for an hour, in place of an
 * older one of this kind.
 *
 * @param tokenHash the hash of a new token
 * @returns undefined when no mail is due, or others have claimed it
 */
export async function claimMail (
  database: Database,
  tokenHash: Uint8Array
): Promise<ClaimedMail | undefined> {
  return (await database.run(CLAIM, { tokenHash }))[0]
}

/**
 * Removes a mail that was sent or is given up, unless another process has claimed it since.
 *
 * @returns whether it was removed
 */
export async function removeMail (database: Database, { id, attempts }: ClaimedMail): Promise<boolean> {
  const { count } = await database.mail.deleteMany({ where: { id, attempts } })
  return count > 0
}

/** Ends the claim. The next attempt may begin after `seconds`. */
export async function postponeMail (
  database: Database,
  { id, attempts }: ClaimedMail,
  seconds: number
): Promise<void> {
  // PostgreSQL's clock decides what is due.
  await database.$executeRaw`
    UPDATE mails SET due_at = now() + make_interval(secs => ${seconds})
    WHERE id = ${id}::uuid AND attempts = ${attempts}`
}

export async function measureQueue (database: Database): Promise<Backlog> {
  const { _count: count, _min: { createdAt } } = await database.mail
    .aggregate({ _count: true, _min: { createdAt: true } })
  return { count, oldestSeconds: createdAt === null ? 0 : (Date.now() - createdAt.getTime()) / 1000 }
}
