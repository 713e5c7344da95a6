import type { Database } from '../../../infra/postgres/database.ts'
import type { ApiKey } from '../../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { uuidv7, hashToken, createCheckedToken, isCheckedToken } from '../../../infra/system/identifiers.ts'
import type { Page } from '../../../http/pagination.ts'
import { noticeSql } from '../mail/mail-sql.ts'
import { IS_AUTHORIZED, type PasswordProof } from '../user-repository.ts'

/** What an API key may give access to. */
export type Resource = 'pages' | 'assets'

/** The scopes of API keys. */
export const SCOPES = ['pages:read', 'drafts:write', 'pages:write', 'assets:read', 'assets:write'] as const
export type Scope = typeof SCOPES[number]

/** Whether a key with some scopes may do what needs a scope. Who may write pages may also write drafts. */
export const hasScope = (scopes: readonly string[], needed: Scope): boolean =>
  scopes.includes(needed) || (needed === 'drafts:write' && scopes.includes('pages:write'))

const PREFIX = 'lf_'

export const createApiKey = (): string => createCheckedToken(PREFIX)

/** Whether a bearer token is meant to be an API key. Access tokens begin with `ey`. */
export const looksLikeApiKey = (token: string): boolean => token.startsWith(PREFIX)

/** Whether a text has the form of an API key, and the right checksum. */
export const isApiKey = (text: string): boolean => isCheckedToken(PREFIX, text)

/** How many unexpired keys a user may have. The trigger of the table has the same number. */
export const MAX_KEYS = 100

/** The API key with which a request was made. */
export interface UsedKey {
  readonly id: string
  readonly userId: number
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly hasConfirmedEmail: boolean
}

/** What the owner sees of a key: not its hash. */
const SHOWN = {
  id: true,
  name: true,
  scopes: true,
  createdAt: true,
  expiresAt: true,
  lastUsedAt: true
} as const

/** A key as its owner sees it. */
export type ApiKeyRow = Pick<ApiKey, keyof typeof SHOWN>

// Hot: it runs for every request with a key, about five times as fast as through Prisma.
const FIND = statement<UsedKey & { isUseRecorded: boolean, minute: Date }>(`
  SELECT k.id, k.user_id AS "userId", k.name, k.scopes,
    u.email_confirmed_at IS NOT NULL AS "hasConfirmedEmail",
    k.last_used_at IS NOT NULL AND k.last_used_at >= date_trunc('minute', now()) AS "isUseRecorded",
    date_trunc('minute', now()) AS minute
  FROM api_keys k JOIN users u ON u.id = k.user_id
  WHERE k.key_hash = :keyHash AND (k.expires_at IS NULL OR k.expires_at > now())`)

const CREATION_NOTICE = noticeSql(
  'api_key_created',
  'account',
  ':hasMail::boolean AND EXISTS (SELECT FROM created)',
  { details: "jsonb_build_object('scopes', :scopes::text[], 'expires_at', :expiresAt::timestamptz)" }
)

// One statement checks the proof and creates key and notice. The lock on the user lets one be created at a
// time; a trigger counts the keys, because this statement can't see those created while it waited.
const CREATE = statement<ApiKeyRow | { [Field in keyof ApiKeyRow]: null }>(`
  WITH account AS (SELECT id, email FROM users WHERE ${IS_AUTHORIZED} FOR NO KEY UPDATE), created AS (
    INSERT INTO api_keys (id, user_id, name, scopes, key_hash, expires_at)
    SELECT :id::uuid, id, :name, :scopes::text[], :keyHash, :expiresAt::timestamptz FROM account
    RETURNING id, name, scopes, created_at, expires_at, last_used_at
  ), ${CREATION_NOTICE}
  SELECT created.id, name, scopes, created_at AS "createdAt", expires_at AS "expiresAt",
    last_used_at AS "lastUsedAt"
  FROM account LEFT JOIN created ON true`)

/** Finds a key, and notes its use, at most once a minute. @returns undefined when it is gone or expired */
export async function useKey (database: Database, key: string): Promise<UsedKey | undefined> {
  const [found] = await database.run(FIND, { keyHash: hashToken(key) })
  if (found?.isUseRecorded === false) {
    const { id, minute } = found
    const where = { id, OR: [{ lastUsedAt: null }, { lastUsedAt: { lt: minute } }] }
    await database.apiKey.updateMany({ where, data: { lastUsedAt: minute } })
  }
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
  { key, ...wanted }: {
    readonly name: string
    readonly scopes: readonly Scope[]
    readonly key: string
    readonly expiresAt: Date | null
  },
  hasMail: boolean
): Promise<ApiKeyRow | 'too many' | undefined> {
  const values = { id: uuidv7(), keyHash: hashToken(key), ...wanted, ...owner, hasMail }
  const [created] = await database.run(CREATE, values)
  // No row: the password or session isn't valid. A row without an id: the user has too many keys.
  return created?.id === null ? 'too many' : created
}

export async function hasMaxKeys (database: Database, userId: number): Promise<boolean> {
  const OR = [{ expiresAt: null }, { expiresAt: { gt: new Date() } }]
  return await database.apiKey.count({ where: { userId, OR } }) >= MAX_KEYS
}

/** Lists the keys of a user, newest first: one more than `page.limit` if there is a next page. */
export const listKeys = async (
  { apiKey }: Database,
  userId: number,
  { before, limit }: Page
): Promise<ApiKeyRow[]> =>
  await apiKey.findMany({
    where: { userId, id: { lt: before } },
    orderBy: { id: 'desc' },
    take: limit + 1,
    select: SHOWN
  })

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
