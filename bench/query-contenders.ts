import { createHash, randomUUID } from 'node:crypto'
import type { BoundedPool } from '../src/infra/postgres/pool.ts'
import { statement as prepare } from '../src/infra/postgres/statement.ts'
import type { PrismaClient } from '../src/infra/postgres/generated/prisma/client.ts'
import { randomPublicId } from '../src/infra/system/identifiers.ts'

// The service's most frequent statements, each in all ways of sending it.

export interface Fixture {
  readonly pages: readonly { id: string, publicId: string, userId: number, hash: string, document: string }[]
  readonly sessions: readonly { id: string, userId: number }[]
  readonly userId: number
}

export interface Contender {
  readonly statement: string
  readonly way: string
  /** Sends the statement once and reads the whole result. */
  readonly run: () => Promise<unknown>
}

export interface Clients extends Fixture {
  readonly pool: BoundedPool
  readonly typed: PrismaClient
  /** Uses named prepared statements. */
  readonly named: PrismaClient
}

const RECORD =
  'id, public_id AS "publicId", current_data AS "currentData", content_hash AS "contentHash", version, ' +
  'created_at AS "createdAt", updated_at AS "updatedAt"'
const FIELDS = {
  id: true,
  publicId: true,
  currentData: true,
  contentHash: true,
  version: true,
  createdAt: true,
  updatedAt: true
} as const
const LIST_LIMIT = 50

/** A statement as SQL and as a typed query of Prisma. */
interface Statement {
  readonly name: string
  readonly text: string
  /** Returns the values of the next query. */
  readonly values: () => Record<string, any>
  readonly typedQuery: (client: PrismaClient, values: Record<string, any>) => Promise<unknown>
}

type Page = Fixture['pages'][number]
type Session = Fixture['sessions'][number]

export function contenders (clients: Clients): Contender[] {
  const { pages, sessions, userId } = clients
  let turn = 0
  const nextPage = () => pages[turn++ % pages.length] as Page
  const nextSession = () => sessions[turn++ % sessions.length] as Session
  return [
    publicRead(nextPage),
    sessionCheck(nextSession),
    create(userId, nextPage().document),
    replace(nextPage),
    list(nextPage)
  ].flatMap((statement) => inAllWays(statement, clients))
}

/** Returns a statement in all ways: as Prisma's typed query, and as SQL. */
function inAllWays (
  { name: statement, text: sql, values, typedQuery }: Statement,
  clients: Clients
): Contender[] {
  const { pool, typed, named } = clients
  const prepared = prepare(sql)
  const { text, parameters } = prepared
  const ordered = () => {
    const named = values()
    return parameters.map((name) => named[name])
  }
  return [
    { statement, way: 'Prisma typed', run: async () => await typedQuery(typed, values()) },
    { statement, way: 'Prisma typed, named', run: async () => await typedQuery(named, values()) },
    { statement, way: 'Prisma $queryRaw', run: async () => await typed.$queryRawUnsafe(text, ...ordered()) },
    {
      statement,
      way: 'Prisma $queryRaw, named',
      run: async () => await named.$queryRawUnsafe(text, ...ordered())
    },
    { statement, way: 'pg', run: async () => (await pool.query({ text, values: ordered() })).rows },
    { statement, way: 'pg, named (ours)', run: async () => await pool.run(prepared, values()) }
  ]
}

const publicRead = (nextPage: () => Page): Statement => ({
  name: 'public read',
  text: 'SELECT current_data AS "currentData", content_hash AS "contentHash", version, updated_at AS ' +
    '"updatedAt" FROM landing_pages WHERE public_id = :publicId',
  values: () => ({ publicId: nextPage().publicId }),
  typedQuery: async (client, { publicId }) =>
    await client.landingPage.findUnique({
      where: { publicId },
      select: { currentData: true, contentHash: true, version: true, updatedAt: true }
    })
})

const sessionCheck = (nextSession: () => Session): Statement => ({
  name: 'session check',
  text: `SELECT s.id, s.user_id AS "userId", u.email FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE s.id = :id::uuid AND s.user_id = :userId::int AND s.revoked_at IS NULL AND s.expires_at > now()`,
  values () {
    const { id, userId } = nextSession()
    return { id, userId }
  },
  typedQuery: async (client, { id, userId }) =>
    await client.session.findFirst({
      where: { id, userId, revokedAt: null, expiresAt: { gt: new Date() } },
      select: { id: true, userId: true, user: { select: { email: true } } }
    })
})

const create = (userId: number, document: string): Statement => ({
  name: 'create',
  text:
    `INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash, created_at, updated_at)
    VALUES (:id::uuid, :publicId, :userId::int, :document, :hash, :now::timestamptz, :now::timestamptz)
      RETURNING ${RECORD}`,
  values: () => ({
    id: randomUUID(),
    publicId: randomPublicId(),
    userId,
    document,
    hash: hashOf(document),
    now: new Date()
  }),
  typedQuery: async (client, { id, publicId, userId, document: currentData, hash: contentHash, now }) =>
    await client.landingPage.create({
      data: { id, publicId, userId, currentData, contentHash, createdAt: now, updatedAt: now },
      select: FIELDS
    })
})

const replace = (nextPage: () => Page): Statement => ({
  name: 'replace with If-Match',
  text: `UPDATE landing_pages SET current_data = :document, content_hash = :hash, version = version + 1,
      updated_at = :now::timestamptz
    WHERE id = :id::uuid AND user_id = :userId::int AND (:hashes::text[] IS NULL OR content_hash = ANY
      (:hashes::text[])) RETURNING ${RECORD}`,
  values () {
    const { document, hash, id, userId } = nextPage()
    // The service hashes each document. The stored hash stays, so that the ETag matches in the next round,
    // too.
    hashOf(document)
    return { document, hash, now: new Date(), id, userId, hashes: [hash] }
  },
  typedQuery: async (
    client,
    { document: currentData, hash: contentHash, now: updatedAt, id, userId, hashes }
  ) =>
    await client.landingPage.updateManyAndReturn({
      where: { id, userId, contentHash: { in: hashes } },
      data: { currentData, contentHash, version: { increment: 1 }, updatedAt },
      select: FIELDS
    })
})

const list = (nextPage: () => Page): Statement => ({
  name: `list of ${LIST_LIMIT}`,
  text:
    `SELECT ${RECORD} FROM landing_pages WHERE user_id = :userId::int AND (:before::uuid IS NULL OR id < ` +
    ':before::uuid) ORDER BY id DESC LIMIT :limit::int',
  values: () => ({
    userId: nextPage().userId,
    before: 'ffffffff-ffff-7fff-8000-000000000000',
    limit: LIST_LIMIT
  }),
  typedQuery: async (client, { userId, before, limit }) =>
    await client.landingPage.findMany({
      where: { userId, id: { lt: before } },
      orderBy: { id: 'desc' },
      take: limit,
      select: FIELDS
    })
})

const hashOf = (document: string): string => createHash('sha256').update(document).digest('base64url')
