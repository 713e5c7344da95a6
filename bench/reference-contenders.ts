import type { Database } from '../src/infra/postgres/database.ts'
import type { BoundedPool } from '../src/infra/postgres/pool.ts'
import { statement as prepare } from '../src/infra/postgres/statement.ts'
import { contentHash } from '../src/http/conditional-requests.ts'
import { randomPublicId } from '../src/infra/system/identifiers.ts'
import { replacePage } from '../src/modules/landing-pages/write-repository.ts'
import { AUTHORSHIP } from '../src/modules/landing-pages/revision-repository.ts'
import { makeDocument, manyText, SMALL_BYTES } from './documents.ts'
import type { Contender, Fixture } from './query-contenders.ts'

// What it costs to store which assets a document names: a write without that, and one with no or ten of them.

const NAMES = "ARRAY['*', content_hash, content_hash || '.' || version]::text[]"
const unlessSame = (column: string, value: string) =>
  `${column} = CASE WHEN pages.content_hash = :contentHash THEN pages.${column} ELSE ${value} END`
/** The statement of a write before it stored the assets. */
const WRITE_BEFORE = prepare(`
  WITH replaced AS (
    SELECT id, version, current_data, content_hash, updated_at, ${AUTHORSHIP}
    FROM landing_pages WHERE id = :id::uuid AND user_id = :userId::integer AND (:ifMatch::text[] IS NULL OR
      :ifMatch::text[] && ${NAMES})
      AND (:ifNoneMatch::text[] IS NULL OR NOT :ifNoneMatch::text[] && ${NAMES})
      AND (:unmodifiedSince::timestamptz IS NULL OR date_trunc('second', updated_at) <=
        :unmodifiedSince::timestamptz)
    FOR NO KEY UPDATE
  ), kept AS (
    INSERT INTO landing_page_revisions (page_id, version, document, content_hash, byte_size, created_at,
      author_type, author_name, restored_from)
    SELECT id, version, current_data, content_hash, octet_length(current_data), updated_at, "authorType",
      "authorName", "restoredFrom"
    FROM replaced WHERE content_hash <> :contentHash
  )
  UPDATE landing_pages pages SET ${unlessSame('current_data', ':document')}, ${
  unlessSame('content_hash', ':contentHash')
},
    ${unlessSame('version', 'pages.version + 1')},
    ${unlessSame('updated_at', 'GREATEST(pages.updated_at, :now::timestamptz)')},
    ${unlessSame('authored_version', 'pages.version + 1')}, ${unlessSame('author_type', ':authorType')},
    ${unlessSame('author_name', ':authorName')}, ${unlessSame('restored_from', 'NULL')}
  FROM replaced WHERE pages.id = replaced.id
  RETURNING pages.id, public_id AS "publicId", pages.content_hash AS "contentHash", pages.version,
    created_at AS "createdAt", pages.updated_at AS "updatedAt"`)

const NO_CONDITIONS = { ifMatch: null, ifNoneMatch: null, unmodifiedSince: null }
const ASSETS_PER_USER = 10
/** What the URL of a file takes in a document. */
const URL_BYTES = 64

/** Returns the ways of a write; the first is the one that the others are compared with. */
export async function referenceContenders (pool: BoundedPool, { pages }: Fixture): Promise<Contender[]> {
  const keys = await insertAssets(pool)
  const database = pool as unknown as Database // writes only run statements
  const author = { type: 'user', name: 'user@example.com' } as const
  let turn = 0
  const nextPage = () => pages[turn++ % pages.length] as Fixture['pages'][number]
  const plain = makeDocument(SMALL_BYTES, 2)
  const shorter = makeDocument(SMALL_BYTES - ASSETS_PER_USER * URL_BYTES, 2).slice(0, -1)
  const withFiles = (userId: number) => {
    const urls = (keys.get(userId) as string[]).map((key) => `https://pages.example.com/uploads/${key}`)
    return manyText(`${shorter},"files":${JSON.stringify(urls)}}`, turn)
  }
  const way = (name: string, write: (page: Fixture['pages'][number]) => Promise<unknown>): Contender => ({
    statement: 'write of 2 KB, references to assets',
    way: name,
    run: async () => await write(nextPage())
  })
  return [
    way('not stored', async ({ id, userId }) => {
      const document = manyText(plain, turn)
      await pool.run(WRITE_BEFORE, {
        id,
        userId,
        ...NO_CONDITIONS,
        now: new Date(),
        authorType: author.type,
        authorName: author.name,
        document,
        contentHash: contentHash(document)
      })
    }),
    way(
      'stored, no file (ours)',
      async ({ id, userId }) =>
        await replacePage(database, { userId, author }, id, manyText(plain, turn), null)
    ),
    way(
      'stored, ten files (ours)',
      async ({ id, userId }) => await replacePage(database, { userId, author }, id, withFiles(userId), null)
    )
  ]
}

/** Gives each user some assets. @returns their storage keys, by the id of the user */
async function insertAssets (pool: BoundedPool): Promise<Map<number, string[]>> {
  const { rows } = await pool.query('SELECT id FROM users')
  const keys = new Map(rows.map(({ id }) => [
    id as number,
    Array.from({ length: ASSETS_PER_USER }, () => `${randomPublicId()}.jpg`)
  ]))
  await pool.query({
    text: `INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum)
      SELECT gen_random_uuid(), user_id, key, 'photo.jpg', 'image/jpeg', 1, ''
      FROM unnest($1::int[], $2::text[]) AS asset (user_id, key)`,
    values: [[...keys].flatMap(([id, own]) => own.map(() => id)), [...keys.values()].flat()]
  })
  await pool.query('VACUUM ANALYZE assets')
  return keys
}
