import type { Database } from '../../../infra/postgres/database.ts'
import type { ApiKey } from '../../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { uuidv7, hashToken, createCheckedToken, isCheckedToken } from '../../../infra/system/identifiers.ts'
import type { Page } from '../../../http/pagination.ts'
import { queueNotice } from '../mail/queue-repository.ts'
import { lockAccount, type PasswordProof } from '../user-repository.ts'

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
  { key, name, scopes, expiresAt }: {
    readonly name: string
    readonly scopes: Scope[]
    readonly key: string
    readonly expiresAt: Date | null
  },
  hasMail: boolean
): Promise<ApiKeyRow | 'too many' | undefined> {
  return await database.$transaction(async (transaction) => {
    const user = await lockAccount(transaction, owner) // creates one key at a time
    if (user === undefined) return undefined
    const data = { id: uuidv7(), userId: user.id, name, scopes, keyHash: hashToken(key), expiresAt }
    const [created] = await transaction.apiKey.createManyAndReturn({ data: [data], select: SHOWN })
    if (created === undefined) return 'too many' // by the trigger, which counts with PostgreSQL's clock
    const details = { scopes, expires_at: expiresAt?.toISOString() ?? null }
    if (hasMail) await queueNotice(transaction, 'api_key_created', user, details)
    return created
  })
}

export async function hasMaxKeys ({ apiKey }: Database, userId: number): Promise<boolean> {
  const OR = [{ expiresAt: null }, { expiresAt: { gt: new Date() } }]
  return await apiKey.count({ where: { userId, OR } }) >= MAX_KEYS
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
