import type { Database } from '../../../infra/postgres/database.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { uuidv7 } from '../../../infra/postgres/uuid.ts'
import { hashToken } from '../../../infra/system/identifiers.ts'
import type { Page } from '../../../http/pagination.ts'
import { noticeSql } from '../mail/mail-sql.ts'
import { hasSessionSql, type PasswordProof } from '../user-repository.ts'
import type { Scope } from './key.ts'

// FIND is hot: it runs for every request with a key. The other statements in SQL have conditions or a time of
// PostgreSQL that Prisma can't express.

/** The most keys of a user that have not expired. The trigger of the table has the same number. */
export const MAX_KEYS = 100

/** The key of a request. */
export interface UsedKey {
  readonly id: string
  readonly userId: number
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly hasConfirmedEmail: boolean
}

/** A key as its owner sees it. */
export interface ApiKeyRow {
  readonly id: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly lastUsedAt: Date | null
}

const FIND = statement<UsedKey & { isUseRecorded: boolean }>(`
  SELECT k.id, k.user_id AS "userId", k.name, k.scopes, u.email_confirmed_at IS NOT NULL AS "hasConfirmedEmail",
    k.last_used_at IS NOT NULL AND k.last_used_at >= date_trunc('minute', now()) AS "isUseRecorded"
  FROM api_keys k JOIN users u ON u.id = k.user_id
  WHERE k.key_hash = $1 AND (k.expires_at IS NULL OR k.expires_at > now())`)

/** Never waits for the row: many requests may begin with a minute, and one of them is enough. */
const RECORD_USE = statement<object>(`
  UPDATE api_keys SET last_used_at = date_trunc('minute', now())
  WHERE id = (SELECT id FROM api_keys WHERE id = $1::uuid FOR NO KEY UPDATE SKIP LOCKED)`)

/**
 * The lock on the user's row lets one key of a user be made at a time. A trigger counts the keys, because
 * this statement can't see those that were made while it waited. Without a row, the proof doesn't hold.
 */
const CREATE = statement<ApiKeyRow | { [Field in keyof ApiKeyRow]: null }>(`
  WITH account AS (
    SELECT id, email FROM users
    WHERE id = $2::integer AND password_hash = $3 AND ${hasSessionSql('$9')} FOR NO KEY UPDATE
  ), created AS (
    INSERT INTO api_keys (id, user_id, name, scopes, key_hash, expires_at)
    SELECT $1::uuid, id, $4, $5::text[], $6, $7::timestamptz FROM account
    RETURNING *
  ), ${
  noticeSql('api_key_created', 'account', '$8::boolean AND EXISTS (SELECT FROM created)', {
    details: "jsonb_build_object('scopes', $5::text[], 'expires_at', $7::timestamptz)"
  })
}
  SELECT created.id, name, scopes, created_at AS "createdAt", expires_at AS "expiresAt",
    last_used_at AS "lastUsedAt"
  FROM account LEFT JOIN created ON true`)

const COUNT = statement<{ count: number }>(`
  SELECT count(*)::integer AS count FROM api_keys
  WHERE user_id = $1::integer AND (expires_at IS NULL OR expires_at > now())`)

const SHOWN = {
  id: true,
  name: true,
  scopes: true,
  createdAt: true,
  expiresAt: true,
  lastUsedAt: true
} as const

/** Finds a key, and notes its use once a minute. @returns undefined when it is gone or expired */
export async function useKey (database: Database, key: string): Promise<UsedKey | undefined> {
  const [found] = await database.run(FIND, [hashToken(key)])
  if (found?.isUseRecorded === false) await database.run(RECORD_USE, [found.id])
  return found
}

/**
 * Stores a new key of a user who has given the password.
 *
 * @param owner the proof of the password
 * @param hasMail whether the service sends mail
 * @returns `too many` when the user has MAX_KEYS keys; undefined when the password or
 *   the session is no longer valid
 */
export async function createKey (
  database: Database,
  owner: PasswordProof,
  { name, scopes, key, expiresAt }: {
    readonly name: string
    readonly scopes: readonly Scope[]
    readonly key: string
    readonly expiresAt: Date | null
  },
  hasMail: boolean
): Promise<ApiKeyRow | 'too many' | undefined> {
  const rows = await database.run(CREATE, [uuidv7(), owner.userId, owner.passwordHash, name, scopes,
    hashToken(key), expiresAt, hasMail, owner.sessionId])
  const [created] = rows
  return created?.id === null ? 'too many' : created
}

/** Whether a user has MAX_KEYS keys that have not expired. */
export async function hasMaxKeys (database: Database, userId: number): Promise<boolean> {
  const [found] = await database.run(COUNT, [userId])
  return (found?.count as number) >= MAX_KEYS
}

/** Lists the keys of a user, newest first: one more than `page.limit` if there is a next page. */
export async function listKeys (database: Database, userId: number, page: Page): Promise<ApiKeyRow[]> {
  return await database.apiKey.findMany({
    where: page.before === undefined ? { userId } : { userId, id: { lt: page.before } },
    orderBy: { id: 'desc' },
    take: page.limit + 1,
    select: SHOWN
  })
}

/** Finds a key of a user. */
export async function findOwnKey (
  database: Database,
  userId: number,
  id: string
): Promise<ApiKeyRow | undefined> {
  return await database.apiKey.findFirst({ where: { id, userId }, select: SHOWN }) ?? undefined
}

/** Deletes a key of a user. @returns false when there is no such key */
export async function deleteKey (database: Database, userId: number, id: string): Promise<boolean> {
  const { count } = await database.apiKey.deleteMany({ where: { id, userId } })
  return count === 1
}
