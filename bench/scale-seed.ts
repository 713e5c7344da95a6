import type pg from 'pg'

// Fills a database for `npm run bench:scale`, with SQL and without triggers, in batches.

/** What a database contains, in proportion to its pages. */
export interface Amounts {
  readonly pages: number
  /** Of the first account; each fifth page. */
  readonly ownPages: number
  /** Of the second account. */
  readonly somePages: number
  readonly users: number
  readonly assets: number
  readonly revisions: number
  readonly hours: number
  readonly days: number
  /** Expired sessions, each with an expired refresh token. */
  readonly expired: number
  readonly sessions: number
}

const REVISIONS_OF_PAGE = 3
/** The number of a page with a hundred versions, of the first account. */
export const LONG_HISTORY = 10
const HOURS_OF_PAGE = 20
const DAYS_OF_PAGE = 5
/** The number of a page of the first account that is in the trash, as each twentieth one after it. */
export const FIRST_DELETED = 5
/** Pages that one statement inserts. */
const BATCH = 20_000

/** @param pages a multiple of 1,000 */
export const amountsOf = (pages: number): Amounts => ({
  pages,
  ownPages: pages / 5,
  somePages: Math.min(1000, pages / 10),
  users: 2 + pages / 100,
  assets: pages * 3 / 10,
  revisions: pages * REVISIONS_OF_PAGE,
  hours: pages * HOURS_OF_PAGE,
  days: pages * DAYS_OF_PAGE,
  expired: pages * 425 / 1000,
  sessions: pages / 10
})

/** The id of the page or asset with a number. They sort by the numbers, as UUIDs of version 7 do by time. */
export const idOf = (number: number): string =>
  `${number.toString(16).padStart(8, '0')}-0000-7000-8000-000000000000`
const idSql = (number: string) => `(lpad(to_hex(${number}), 8, '0') || '-0000-7000-8000-000000000000')::uuid`
const document = `'{"title":"Page ' || n || '","text":"' || repeat(md5(n::text), 30) || '"}'`

/** The public id of the page with a number. They are in no order, as random ones are. */
export const PUBLIC_ID = "left(md5('page ' || n), 22)"

const STATEMENTS = (amounts: Amounts): [what: string, rows: number, sql: string][] => {
  const { pages, somePages, users, assets, expired, sessions } = amounts
  const other = `3 + n % ${users - 2}`
  const owner = `CASE WHEN n % 5 = 0 THEN 1 WHEN n % 5 = 1 AND n < ${somePages * 5} THEN 2 ELSE ${other} END`
  // Each asset is used by 3 or 4 pages, mostly of its owner; the first one of the first account by 3.
  const used = `CASE WHEN n % 5 = 0 THEN 5 + n % ${assets} ELSE 1 + (n - 1) % ${assets} END`
  const revisions = `CASE n WHEN ${LONG_HISTORY} THEN 100 ELSE ${REVISIONS_OF_PAGE} END`
  const current = "date_trunc('hour', now(), 'UTC')"
  const session = (numbers: string, expiresAt: string) =>
    `WITH made AS (
      INSERT INTO sessions (id, user_id, expires_at)
      SELECT gen_random_uuid(), ${other}, ${expiresAt} FROM ${numbers} RETURNING id, expires_at
    )
    INSERT INTO refresh_tokens (token_hash, session_id, expires_at)
    SELECT sha256(uuid_send(id)), id, expires_at FROM made`
  const numbers = 'generate_series($1::int, $2::int) n'
  return [
    [
      'users',
      users,
      `INSERT INTO users (id, email, password_hash)
      SELECT n, 'user' || n || '@example.com', '' FROM ${numbers}`
    ],
    [
      'assets',
      assets,
      `INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum)
      SELECT ${
        idSql('n')
      }, CASE WHEN n % 5 = 0 THEN 1 ELSE ${other} END, left(md5('asset ' || n), 22) || '.pdf',
        'file ' || n || '.pdf', 'application/pdf', n % 10000, repeat(md5(n::text), 2)
      FROM ${numbers}`
    ],
    [
      'pages',
      pages,
      `INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash, version,
        authored_version, author_type, author_name, used_assets, used_assets_version, indexed_version,
        deleted_at)
      SELECT ${
        idSql('n')
      }, ${PUBLIC_ID}, ${owner}, ${document}, rpad(md5(n::text), 43, '0'), version, version,
        'user', 'owner@example.com', ARRAY[${idSql(used)}], version, version,
        CASE WHEN n % 20 = ${FIRST_DELETED} THEN now() - make_interval(secs => n) END
      FROM ${numbers}, LATERAL (SELECT 1 + ${revisions} AS version) v`
    ],
    [
      'summaries',
      pages,
      `INSERT INTO landing_page_summaries (page_id, user_id, label, search_text, updated_at)
      SELECT ${idSql('n')}, ${owner}, 'Page ' || n, 'page ' || n || chr(10) || ${PUBLIC_ID},
        now() - make_interval(secs => n)
      FROM ${numbers} WHERE n % 20 <> ${FIRST_DELETED}`
    ],
    [
      'versions',
      pages,
      `INSERT INTO landing_page_revisions (page_id, version, document, content_hash, byte_size,
        created_at, author_type, author_name)
      SELECT ${idSql('n')}, version, ${document}, rpad(md5(n::text), 43, '0'), 1000, now(), 'user',
        'owner@example.com'
      FROM ${numbers}, generate_series(1, ${revisions}) version`
    ],
    [
      'hourly counts',
      pages,
      `INSERT INTO landing_page_reads_hourly (page_id, at, reads, not_modified)
      SELECT ${idSql('n')}, ${current} - make_interval(hours => k * 41 + n % 41), 9, 1
      FROM ${numbers}, generate_series(0, ${HOURS_OF_PAGE - 1}) k`
    ],
    [
      'daily counts',
      pages,
      `INSERT INTO landing_page_reads_daily (page_id, at, reads, not_modified)
      SELECT ${idSql('n')}, date_trunc('day', now(), 'UTC') - make_interval(days => k * 7 + n % 7), 90, 10
      FROM ${numbers}, generate_series(0, ${DAYS_OF_PAGE - 1}) k`
    ],
    ['expired sessions', expired, session(numbers, 'now() - make_interval(secs => n * 0.007)')],
    ['sessions', sessions, session(numbers, 'now() + make_interval(days => 1 + n % 29)')]
  ]
}

/** @param progress is called with a line for each table */
export async function seed (
  client: pg.Client,
  amounts: Amounts,
  progress: (line: string) => void
): Promise<void> {
  await client.query('SET session_replication_role = replica')
  await client.query("SET maintenance_work_mem = '256MB'")
  for (const [what, rows, sql] of STATEMENTS(amounts)) {
    const startedAt = Date.now()
    for (let from = 1; from <= rows; from += BATCH) {
      await client.query(sql, [from, Math.min(from + BATCH - 1, rows)])
      if (from % (BATCH * 10) === 1 && from > 1) progress(`  ${what}: ${from - 1} of ${rows} …`)
    }
    progress(`  ${what} after ${Math.round((Date.now() - startedAt) / 1000)} s`)
  }
  await client.query("SELECT setval('users_id_seq', (SELECT max(id) FROM users))")
  await client.query('VACUUM (ANALYZE)')
}
