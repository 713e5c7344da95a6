import type { Database } from '../src/infra/postgres/database.ts'
import type { BoundedPool } from '../src/infra/postgres/pool.ts'
import { statement as prepare } from '../src/infra/postgres/statement.ts'
import { contentHash } from '../src/http/conditional-requests.ts'
import { replacePage } from '../src/modules/landing-pages/write-repository.ts'
import { listRevisions } from '../src/modules/landing-pages/revision-repository.ts'
import { LARGE_BYTES, makeDocument, manyText, SMALL_BYTES } from './documents.ts'
import type { Contender, Fixture } from './query-contenders.ts'

// What revisions cost: a write with and without one, and lists of short and long histories.

/** What If-Match may name a page by. */
const NAMES = "ARRAY['*', content_hash, content_hash || '.' || version]::text[]"
/** The statement of a write before there were revisions, on a table without their trigger. */
const WRITE_BEFORE = prepare(`
  UPDATE pages_without_revisions SET current_data = :document, content_hash = :contentHash, version = version
    + 1,
    updated_at = GREATEST(updated_at, :now::timestamptz)
  WHERE id = :id::uuid AND user_id = :userId::integer AND (:ifMatch::text[] IS NULL OR :ifMatch::text[] &&
    ${NAMES})
  AND (:ifNoneMatch::text[] IS NULL OR NOT :ifNoneMatch::text[] && ${NAMES})
  AND (:unmodifiedSince::timestamptz IS NULL OR date_trunc('second', updated_at) <=
    :unmodifiedSince::timestamptz)
  RETURNING id, public_id AS "publicId", current_data AS "currentData", content_hash AS "contentHash",
    version,
  created_at AS "createdAt", updated_at AS "updatedAt"`)

const NO_CONDITIONS = { ifMatch: null, ifNoneMatch: null, unmodifiedSince: null }
const SIZES = { '2 KB': SMALL_BYTES, '30 KB': LARGE_BYTES }
const HISTORIES = [10, 10_000]
const DOCUMENT_BYTES = 1024 * 1024

/** Returns the ways of each statement; the first is the one that the others are compared with. */
export async function revisionContenders (pool: BoundedPool, { pages }: Fixture): Promise<Contender[]> {
  await pool.query('CREATE TABLE pages_without_revisions (LIKE landing_pages INCLUDING ALL)')
  // What documents were compressed with before there were revisions.
  await pool.query('ALTER TABLE pages_without_revisions ALTER COLUMN current_data SET COMPRESSION pglz')
  await pool.query('INSERT INTO pages_without_revisions SELECT * FROM landing_pages')
  await pool.query('VACUUM ANALYZE pages_without_revisions')
  const database = pool as unknown as Database // these functions only run statements
  let turn = 0
  const nextPage = () => pages[turn++ % pages.length] as Fixture['pages'][number]
  const writes = Object.entries(SIZES).flatMap(([size, bytes]): Contender[] => {
    const base = makeDocument(bytes, 1)
    const nextDocument = () => manyText(base, turn)
    const statement = `write of ${size}`
    return [
      {
        statement,
        way: 'without a revision',
        async run () {
          const { id, userId } = nextPage()
          const document = nextDocument()
          await pool.run(WRITE_BEFORE, {
            id,
            userId,
            ...NO_CONDITIONS,
            document,
            contentHash: contentHash(document),
            now: new Date()
          })
        }
      },
      {
        statement,
        way: 'with a revision (ours)',
        async run () {
          const { id, userId } = nextPage()
          const author = { type: 'user', name: 'user@example.com' } as const
          await replacePage(database, { userId, author }, id, nextDocument(), null)
        }
      }
    ]
  })
  return [...writes, ...await listContenders(pool, pages)]
}

async function listContenders (
  pool: BoundedPool,
  pages: Fixture['pages']
): Promise<Contender[]> {
  const contenders: Contender[] = []
  for (const [index, length] of HISTORIES.entries()) {
    const { id, userId } = pages[index] as Fixture['pages'][number]
    await pool.query({
      text: `UPDATE landing_pages SET current_data = '["' || repeat('x', ${
        DOCUMENT_BYTES - 4
      }) || '"]' WHERE id = $1`,
      values: [id]
    })
    // Several statements, because the pool limits the time of each.
    for (let from = 1; from <= length; from += 1000) {
      await pool.query({
        text: `INSERT INTO landing_page_revisions
          SELECT id, -n, current_data, content_hash, octet_length(current_data), now(), 'user', 'x', NULL
          FROM landing_pages, generate_series($2::int, LEAST($2 + 999, $3::int)) n WHERE id = $1`,
        values: [id, from, length]
      })
    }
    contenders.push({
      statement: 'list of versions of 1 MiB',
      way: `${length} versions`,
      run: async () => await listRevisions(pool, userId, id, { before: 2n ** 63n - 1n, limit: 10 })
    })
  }
  await pool.query('ANALYZE landing_page_revisions')
  return contenders
}
