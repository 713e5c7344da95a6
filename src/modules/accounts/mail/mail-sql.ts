// SQL that adds mails to the queue, for statements that change an account. A mail is queued by the statement
// that causes it, so that none is lost and none is sent for a change that failed.

/** Mails with a link. The link of each kind that was mailed last is the only one that can be used. */
export type LinkKind = 'email_confirmation' | 'password_reset'
/** Mails that tell a user about a change of the account. */
export type NoticeKind = 'password_changed' | 'api_key_created' | 'account_deleted' | 'webhook_paused'
export type MailKind = LinkKind | NoticeKind

/** Mails with a link of one kind, and notices of one kind, that an address gets in an hour at most. */
const LINKS_PER_HOUR = 3
const NOTICES_PER_HOUR = 10

/** Returns a table, `allowed`, which has a row if another mail may be queued, and counts that mail. */
const limitSql = (kind: string, from: string, isOn: string, max: number): string =>
  `allowed AS (
    INSERT INTO mail_limits AS known (address_hash, kind, queued_at)
    SELECT sha256(convert_to(email, 'UTF8')), ${kind}, ARRAY[now()] FROM ${from} WHERE ${isOn}
    ON CONFLICT (address_hash, kind) DO UPDATE
      SET queued_at = (known.queued_at || now())[GREATEST(1, cardinality(known.queued_at) + 2 - ${max}):]
    WHERE cardinality(known.queued_at) < ${max} OR known.queued_at[1] <= now() - interval '1 hour'
    RETURNING kind
  )`

/**
 * Returns tables of a WITH clause that queue a notice, unless there were too many in the last hour.
 *
 * @param from the table with the `id` and `email` of the user
 * @param isOn a condition; without mail it must be false
 * @param details SQL of a `jsonb` for the text
 * @param userId SQL of the user; NULL if the notice outlives the account
 */
export const noticeSql = (
  kind: NoticeKind,
  from: string,
  isOn: string,
  { details = 'NULL', userId = 'id' }: { details?: string, userId?: string } = {}
): string =>
  `${limitSql(`'${kind}'`, from, isOn, NOTICES_PER_HOUR)}, notice AS (
    INSERT INTO mails (user_id, recipient, kind, details)
    SELECT ${userId}, email, kind, ${details} FROM ${from}, allowed
  )`

/**
 * Returns tables of a WITH clause that queue a mail with a link, unless there were too many in the last hour.
 * The link is made when the mail is sent.
 *
 * @param kind SQL of a LinkKind
 * @param from the table with the `id` and `email` of the user
 * @param isOn a condition; without mail it must be false
 */
export const linkMailSql = (kind: string, from: string, isOn = 'true'): string =>
  `${limitSql(kind, from, isOn, LINKS_PER_HOUR)}, link AS (
    INSERT INTO mail_links (user_id, kind, mail_id)
    SELECT id, kind, gen_random_uuid() FROM ${from}, allowed
    ON CONFLICT (user_id, kind) DO UPDATE SET mail_id = excluded.mail_id
    RETURNING user_id, kind, mail_id
  ), mail AS (
    INSERT INTO mails (id, user_id, recipient, kind)
    SELECT mail_id, user_id, email, kind FROM link JOIN ${from} ON id = user_id
  )`
