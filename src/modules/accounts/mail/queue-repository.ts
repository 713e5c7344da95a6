import { statement, type StatementRunner } from '../../../infra/postgres/statement.ts'
import type { LinkKind, MailKind } from './mail-sql.ts'

// The queue of mails in the table `mails`. Single statements, so that no transaction is open while a mail is
// sent. A sender that dies leaves its claim, which lapses.

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
  readonly details: unknown
  /** The number of this attempt, from 1. */
  readonly attempts: number
  readonly ageSeconds: number
}

const CLAIM = statement<ClaimedMail>(`
  UPDATE mails SET due_at = now() + make_interval(secs => ${CLAIM_SECONDS}), attempts = attempts + 1
  WHERE id = (SELECT id FROM mails WHERE due_at <= now() ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING id, user_id AS "userId", recipient, kind, details, attempts,
    EXTRACT(epoch FROM now() - created_at)::double precision AS "ageSeconds"`)
// Another process may have claimed the mail if this one was stopped for longer than a claim. The number of
// the attempt tells whose claim it is.
const REMOVE = statement<
  object
>('DELETE FROM mails WHERE id = $1::uuid AND attempts = $2::integer RETURNING id')
const POSTPONE = statement<object>(`
  UPDATE mails SET due_at = now() + make_interval(secs => $3::double precision)
  WHERE id = $1::uuid AND attempts = $2::integer`)
const STORE_LINK = statement<object>(`
  UPDATE mail_links SET token_hash = $4, expires_at = now() + ${LINK_LIFETIME}
  WHERE user_id = $2::integer AND kind = $3 AND mail_id = $1::uuid
    AND EXISTS (SELECT FROM mails WHERE id = $1::uuid AND attempts = $5::integer) RETURNING user_id`)
const MEASURE = statement<QueueSize>(`
  SELECT count(*)::integer AS waiting,
    COALESCE(EXTRACT(epoch FROM now() - min(created_at)), 0)::double precision AS "oldestSeconds" FROM mails`)

export interface QueueSize {
  readonly waiting: number
  /** The age of the oldest mail; 0 without mails. */
  readonly oldestSeconds: number
}

/** Claims the mail that is due first. @returns undefined when none is due, or others have claimed it */
export async function claimMail (database: StatementRunner): Promise<ClaimedMail | undefined> {
  return (await database.run(CLAIM, []))[0]
}

/**
 * Removes a mail that was sent or is given up, unless another process has claimed it since.
 *
 * @returns whether it was removed
 */
export async function removeMail (
  database: StatementRunner,
  { id, attempts }: ClaimedMail
): Promise<boolean> {
  return (await database.run(REMOVE, [id, attempts])).length > 0
}

/** Ends the claim. The next attempt may begin after `seconds`. */
export async function postponeMail (
  database: StatementRunner,
  { id, attempts }: ClaimedMail,
  seconds: number
): Promise<void> {
  await database.run(POSTPONE, [id, attempts, seconds])
}

/**
 * Makes a token usable for an hour, in place of an older one of this kind.
 *
 * @returns false if a newer mail or attempt carries the link, or no link may be used any more
 */
export async function storeLink (
  database: StatementRunner,
  { id, userId, attempts }: ClaimedMail,
  kind: LinkKind,
  tokenHash: Uint8Array
): Promise<boolean> {
  const rows = await database.run(STORE_LINK, [id, userId, kind, tokenHash, attempts])
  return rows.length > 0
}

/** Measures the queue. */
export async function measureQueue (database: StatementRunner): Promise<QueueSize> {
  return (await database.run(MEASURE, []))[0] as QueueSize
}
