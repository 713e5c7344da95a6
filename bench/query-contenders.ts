import { createHash, randomUUID } from 'node:crypto'
import type { BoundedPool } from '../src/database/pool.ts'
import { statement as prepare } from '../src/database/statement.ts'
import type { PrismaClient } from '../src/generated/prisma/client.ts'
import { randomPublicId } from '../src/identifiers.ts'

// The statements that matter, each in every way to send it.

export interface Fixture {
  readonly pages: readonly { id: string, publicId: string, userId: number, hash: string, document: string }[]
  readonly sessions: readonly { id: string, userId: number }[]
  readonly userId: number
}

export interface Contender {
  readonly statement: string
  readonly way: string
  /** Sends it once and reads all of the answer. */
  readonly run: () => Promise<unknown>
}

export interface Clients extends Fixture {
  readonly pool: BoundedPool
  readonly typed: PrismaClient
  /** With names for the statements that it makes. */
  readonly named: PrismaClient
}

const RECORD = 'id, public_id AS "publicId", current_data AS "currentData", content_hash AS "contentHash", version, created_at AS "createdAt", updated_at AS "updatedAt"'
const FIELDS = { id: true, publicId: true, currentData: true, contentHash: true, version: true, createdAt: true, updatedAt: true } as const
const LIST_LIMIT = 50

export function contenders ({ pool, typed, named, pages, sessions, userId }: Clients): Contender[] {
  let turn = 0
  const nextPage = () => pages[turn++ % pages.length] as Fixture['pages'][number]
  const nextSession = () => sessions[turn++ % sessions.length] as Fixture['sessions'][number]
  const hashOf = (document: string) => createHash('sha256').update(document).digest('base64url')
  const document = pages[0]!.document

  /** One statement in all ways: typed by Prisma, and as SQL by everybody else. */
  function ways (statement: string, text: string, ask: () => unknown[], typedQuery: (client: PrismaClient, values: any[]) => Promise<unknown>): Contender[] {
    const prepared = prepare(text)
    return [
      { statement, way: 'Prisma typed', run: async () => await typedQuery(typed, ask()) },
      { statement, way: 'Prisma typed, named', run: async () => await typedQuery(named, ask()) },
      { statement, way: 'Prisma $queryRaw', run: async () => await typed.$queryRawUnsafe(text, ...ask()) },
      { statement, way: 'Prisma $queryRaw, named', run: async () => await named.$queryRawUnsafe(text, ...ask()) },
      { statement, way: 'pg', run: async () => (await pool.query({ text, values: ask() })).rows },
      { statement, way: 'pg, named (ours)', run: async () => await pool.run(prepared, ask()) }
    ]
  }

  return [
    ...ways(
      'public read',
      'SELECT current_data AS "currentData", content_hash AS "contentHash", version, updated_at AS "updatedAt" FROM landing_pages WHERE public_id = $1',
      () => [nextPage().publicId],
      async (client, [publicId]) => await client.landingPage.findUnique({ where: { publicId }, select: { currentData: true, contentHash: true, version: true, updatedAt: true } })
    ),
    ...ways(
      'session check',
      `SELECT s.id, s.user_id AS "userId", u.email FROM sessions s JOIN users u ON u.id = s.user_id
        WHERE s.id = $1::uuid AND s.user_id = $2::int AND s.revoked_at IS NULL AND s.expires_at > now()`,
      () => {
        const { id, userId } = nextSession()
        return [id, userId]
      },
      async (client, [id, userId]) => await client.session.findFirst({
        where: { id, userId, revokedAt: null, expiresAt: { gt: new Date() } },
        select: { id: true, userId: true, user: { select: { email: true } } }
      })
    ),
    ...ways(
      'create',
      `INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash, created_at, updated_at)
        VALUES ($1::uuid, $2, $3::int, $4, $5, $6::timestamptz, $6::timestamptz) RETURNING ${RECORD}`,
      () => [randomUUID(), randomPublicId(), userId, document, hashOf(document), new Date()],
      async (client, [id, publicId, userId, currentData, contentHash, now]) => await client.landingPage.create({
        data: { id, publicId, userId, currentData, contentHash, createdAt: now, updatedAt: now }, select: FIELDS
      })
    ),
    ...ways(
      'replace with If-Match',
      `UPDATE landing_pages SET current_data = $1, content_hash = $2, version = version + 1, updated_at = $3::timestamptz
        WHERE id = $4::uuid AND user_id = $5::int AND ($6::text[] IS NULL OR content_hash = ANY ($6::text[])) RETURNING ${RECORD}`,
      // The same document again, so that the tag matches in the next round too.
      () => {
        const page = nextPage()
        hashOf(page.document)
        return [page.document, page.hash, new Date(), page.id, page.userId, [page.hash]]
      },
      async (client, [currentData, contentHash, updatedAt, id, userId, hashes]) => await client.landingPage.updateManyAndReturn({
        where: { id, userId, contentHash: { in: hashes } },
        data: { currentData, contentHash, version: { increment: 1 }, updatedAt },
        select: FIELDS
      })
    ),
    ...ways(
      `list of ${LIST_LIMIT}`,
      `SELECT ${RECORD} FROM landing_pages WHERE user_id = $1::int AND ($2::uuid IS NULL OR id < $2::uuid) ORDER BY id DESC LIMIT $3::int`,
      () => [nextPage().userId, 'ffffffff-ffff-7fff-8000-000000000000', LIST_LIMIT],
      async (client, [userId, before, limit]) => await client.landingPage.findMany({ where: { userId, id: { lt: before } }, orderBy: { id: 'desc' }, take: limit, select: FIELDS })
    )
  ]
}
