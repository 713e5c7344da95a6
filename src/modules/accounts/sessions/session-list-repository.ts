import { NEWEST, type Page } from '../../../http/pagination.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { ALIVE } from '../user-repository.ts'
import type { Client, Session } from './session-repository.ts'

// The sessions of a user. SQL, because PostgreSQL's clock decides which of them have ended.

/** A session in the list of its user. */
export interface ListedSession extends Client {
  readonly id: string
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
}

/** A session whose refresh token has expired can't be used any more, unless it is the bearer's (`:current`). */
const LIST = statement<ListedSession>(`
  SELECT id, created_at AS "createdAt", last_used_at AS "lastUsedAt", user_agent AS "userAgent", address
  FROM sessions s
  WHERE user_id = :userId::integer AND id < :before::uuid AND ${ALIVE} AND (id = :current::uuid OR EXISTS (
    SELECT FROM refresh_tokens t WHERE t.session_id = s.id AND t.rotated_at IS NULL AND t.expires_at > now()))
  ORDER BY id DESC LIMIT :limit::integer + 1`)

/** One conditional statement: PostgreSQL's clock decides whether the session is alive. */
const END_ONE = statement<{ id: string }>(`
  UPDATE sessions s SET revoked_at = now()
  WHERE id = :id::uuid AND user_id = :userId::integer AND ${ALIVE} RETURNING id`)

/** One conditional statement, like END_ONE. */
const END_OTHERS = statement<{ id: string }>(`
  UPDATE sessions s SET revoked_at = now()
  WHERE id <> :id::uuid AND user_id = :userId::integer AND ${ALIVE} RETURNING id`)

/** Lists the sessions of a user, newest first: one more than `page.limit` if there is a next page. */
export async function listSessions (
  database: Database,
  { userId, id }: Session,
  { before = NEWEST, limit }: Page
): Promise<ListedSession[]> {
  return await database.run(LIST, { userId, current: id, before, limit })
}

/** Ends one session of a user. @returns false when there is no such session */
export async function endSession (database: Database, userId: number, id: string): Promise<boolean> {
  return (await database.run(END_ONE, { userId, id })).length > 0
}

/** Ends all sessions of a user except this one. @returns how many it ended */
export async function endOtherSessions (database: Database, { userId, id }: Session): Promise<number> {
  return (await database.run(END_OTHERS, { userId, id })).length
}
