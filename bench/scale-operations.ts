import { randomBytes, randomUUID } from 'node:crypto'
import type { FastifyInstance, InjectOptions } from 'fastify'
import pg from 'pg'
import { FIRST_DELETED, idOf, LONG_HISTORY, PUBLIC_ID, type Amounts } from './scale-seed.ts'
import { buildApp } from '../src/app.ts'
import { loadConfig } from '../src/config.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { beginDeletion, finishDeletion, hidePages } from '../src/modules/account-deletion/index.ts'
import { findBegunDeletions } from '../src/modules/account-deletion/deletion-repository.ts'
import { operatorOf, Passwords } from '../src/modules/accounts/index.ts'
import { useKey } from '../src/modules/accounts/api-keys/key-repository.ts'
import { sweepExpired } from '../src/modules/accounts/cleanup-repository.ts'
import type { FileStore } from '../src/modules/assets/index.ts'
import { findPublicPages } from '../src/modules/landing-pages/landing-page-repository.ts'
import { pruneReads, storeReads } from '../src/modules/landing-pages/read-count-repository.ts'
import { pruneRevisions } from '../src/modules/landing-pages/revision-repository.ts'
import { indexPages } from '../src/modules/landing-pages/references/asset-references.ts'
import { purgePages } from '../src/modules/landing-pages/trash-repository.ts'
import { cursorAfter } from '../src/http/pagination.ts'

// The operations that `npm run bench:scale` measures: routes through the service, background tasks alone.

/** A database that is measured. */
export interface Place {
  readonly url: string
  /** The folder of uploads. */
  readonly uploads: string
  readonly admin: pg.Client
  readonly database: Database
  readonly amounts: Amounts
  /**
   * Measures an operation, which may return the number of rows of its work.
   *
   * @param promise `flat`: a large database may cost three times as much and 20 buffers more; `per row`: each
   *   row three times as much and two buffers more, because indexes are deeper
   */
  readonly measure: (
    name: string,
    promise: 'flat' | 'per row',
    run: () => Promise<unknown>,
    runs?: number
  ) => Promise<void>
  readonly note: (line: string) => void
}

/** PostgreSQL may change the plan of a prepared statement when it runs for the sixth time. */
const RUNS = 7
const PASSWORD = 'correct horse battery'
const HOUR_MS = 60 * 60 * 1000

/** Measures the routes, as the owner of a fifth of all pages. */
export async function measureRoutes (
  { url, uploads, admin, database, amounts, measure }: Place
): Promise<void> {
  const email = 'owner@example.com'
  await admin.query('UPDATE users SET email = $1, password_hash = $2 WHERE id = 1', [
    email,
    await new Passwords().hash(PASSWORD)
  ])
  const app = await buildApp(loadConfig({
    DATABASE_URL: url,
    DATABASE_POOL_SIZE: '1',
    DATABASE_TIMEOUT_MS: '60000',
    JWT_SECRET: randomBytes(32).toString('hex'),
    UPLOADS_DIR: uploads,
    BASE_URL: 'http://landfall.test',
    LOG_LEVEL: 'silent',
    MAX_EVENT_LOOP_DELAY_MS: '0'
  }))
  try {
    const signIn = async () =>
      await send(app, 'POST', '/auth/sign_in', { payload: { user: { email, password: PASSWORD } } })
    const headers = { authorization: `Bearer ${(await signIn()).access_token}` }
    const call = async (
      method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
      path: string,
      payload?: object
    ) => await send(app, method, path, { headers, ...payload && { payload } })
    const route = async (name: string, run: () => Promise<unknown>) => await measure(name, 'flat', run, RUNS)
    const middle = (last: number) => cursorOf(idOf(last / 2))
    const page = `/manage/landing_pages/${idOf(amounts.pages / 2)}`
    let turn = 0

    await route('sign-in', signIn)
    await route('session check', async () => await call('GET', '/auth/me'))
    await route('list of sessions', async () => await call('GET', '/auth/sessions'))
    const { key } = await call('POST', '/api_keys', {
      name: 'a program',
      scopes: ['pages:read'],
      current_password: PASSWORD
    })
    await route('key check', async () => await useKey(database, key))
    for (const [name, path, last] of LISTS(amounts)) {
      await route(`${name}, first part`, async () => await call('GET', path))
      await route(`${name}, middle`, async () => await call('GET', `${path}?cursor=${middle(last)}`))
    }
    for (const [path, cursor] of await sortedLists(admin, amounts)) {
      // Neighbours in the list are anywhere in the table.
      await measure(`${path}, first part`, 'per row', async () => await call('GET', path), RUNS)
      if (cursor === undefined) continue
      const middlePart = `${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}`
      await measure(`${path}, middle`, 'per row', async () => await call('GET', middlePart), RUNS)
    }
    await route('delete and restore of a page', async () => {
      await call('DELETE', page)
      await call('POST', `/manage/deleted_pages/${idOf(amounts.pages / 2)}/restore`)
    })
    await route(
      'write of a draft',
      async () => await call('PUT', `${page}/draft`, { title: `draft ${++turn}` })
    )
    await route('state of a page', async () => await call('GET', `${page}/publication`))
    await route('draft and publication', async () => {
      await call('PUT', `${page}/draft`, { title: `draft ${++turn}` })
      await call('POST', `${page}/publish`)
    })
    await route('record of a page', async () => await call('GET', page))
    await route(
      'create of a page',
      async () => await call('POST', '/landing_pages', { current_data: { title: 'new' } })
    )
    await route('replace', async () => await call('PUT', `${page}/document`, { title: `version ${++turn}` }))
    const { rows: [{ storage_key: used }] } = await admin.query(
      'SELECT storage_key FROM assets WHERE id = $1',
      [
        idOf(5)
      ]
    )
    await route(
      'replace, with an asset',
      async () => await call('PUT', `${page}/document`, { title: `version ${++turn}`, photo: used })
    )
    await route('patch', async () =>
      await send(app, 'PATCH', `${page}/document`, {
        headers: { ...headers, 'content-type': 'application/merge-patch+json' },
        payload: JSON.stringify({ title: `patch ${++turn}` })
      }))
    const history = `/manage/landing_pages/${idOf(LONG_HISTORY)}/revisions`
    await route('list of versions', async () => await call('GET', history))
    await route('read of a version', async () => await call('GET', `${history}/50`))
    const monthAgo = new Date(Date.now() - 30 * 24 * HOUR_MS).toISOString()
    await route('reads by hour, 30 days', async () => await call('GET', `${page}/reads?from=${monthAgo}`))
    await route('reads by day', async () => await call('GET', `${page}/reads?per=day`))
    let deleted = amounts.pages / 2
    await route(
      'delete of a page',
      async () => await call('DELETE', `/manage/landing_pages/${idOf(deleted += 10)}`)
    )
    await route('asset that 3 pages use', async () => await call('GET', `/assets/${idOf(5)}`))
    const uploaded: string[] = []
    await route('upload', async () => {
      uploaded.push((await upload(app, headers)).id)
    })
    await route(
      'delete of an asset if unused',
      async () => await call('DELETE', `/assets/${uploaded.pop()}?if_unused=true`)
    )
  } finally {
    await app.close()
  }
}

const LISTS = ({ pages, assets }: Amounts): [name: string, path: string, last: number][] => [
  ['list of pages', '/manage/landing_pages', pages],
  ['summaries', '/manage/landing_page_summaries', pages],
  ['list of assets', '/assets', assets]
]

/** The trash and the lists that aren't sorted by creation, each with the cursor of its middle. */
async function sortedLists (
  admin: pg.Client,
  { pages }: Amounts
): Promise<[path: string, cursor?: string][]> {
  const { rows: [{ updated, deleted }] } = await admin.query(
    `SELECT (SELECT updated_at FROM landing_page_summaries WHERE page_id = $1) AS updated,
      (SELECT deleted_at FROM landing_pages WHERE id = $2) AS deleted`,
    [idOf(pages / 2), idOf(pages / 2 + FIRST_DELETED)]
  )
  const byTime = (at: Date, number: number) => cursorAfter('updated', idOf(number), String(at.getTime()))
  const byUpdate = byTime(updated, pages / 2)
  const byLabel = cursorAfter('label', idOf(pages / 2), 'page 5')
  return [
    ['/manage/landing_pages?sort=updated', byUpdate],
    ['/manage/landing_page_summaries?sort=updated', byUpdate],
    [
      '/manage/landing_pages?updated_since=1970-01-01',
      cursorAfter('changed', idOf(pages / 2), String(updated.getTime()))
    ],
    ['/manage/landing_pages?sort=label', byLabel],
    ['/manage/landing_page_summaries?sort=label', byLabel],
    ['/manage/deleted_pages', byTime(deleted, pages / 2 + FIRST_DELETED)],
    ['/assets?sort=filename'],
    ['/assets?sort=byte_size']
  ]
}

const cursorOf = (id: string): string => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')

async function send (
  app: FastifyInstance,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  url: string,
  options: Omit<InjectOptions, 'method' | 'url'>
) {
  const response = await app.inject({ method, url, ...options })
  if (response.statusCode >= 300) throw new Error(`${method} ${url}: ${response.statusCode} ${response.body}`)
  return response.body === '' ? undefined : response.json()
}

async function upload (app: FastifyInstance, headers: Record<string, string>) {
  const form = new FormData()
  form.append('asset[file]', new Blob(['some text'], { type: 'text/plain' }), 'some.txt')
  const request = new Request('http://landfall.test', { method: 'POST', body: form })
  return await send(app, 'POST', '/assets', {
    headers: { ...headers, 'content-type': request.headers.get('content-type') as string },
    payload: Buffer.from(await request.arrayBuffer())
  })
}

/** Measures what the service does without a request. */
export async function measureTasks ({ admin, database, amounts, measure, note }: Place): Promise<void> {
  const { rows: pages } = await admin
    .query(`SELECT ${PUBLIC_ID} AS id FROM generate_series(1, $1::int) n ORDER BY md5(n::text) LIMIT 1000`, [
      amounts.pages
    ])
  const publicIds = pages.map(({ id }) => id as string)
  await measure(
    'cold public reads, 50 together',
    'per row',
    async () => (await findPublicPages(database, publicIds.slice(0, 50), 32 * 1024)).length,
    RUNS
  )
  await measureReport({ admin, database, measure, note }, publicIds)

  const sweep = async () => await sweepExpired(database)
  await measure('sweep of expired sessions', 'per row', async () => {
    await sweep()
    return amounts.expired * 2
  })
  await admin.query('VACUUM (ANALYZE) sessions, refresh_tokens') // as autovacuum does
  await measure('sweep of sessions, nothing to do', 'flat', sweep)
  await admin.query(`UPDATE refresh_tokens SET expires_at = now() - interval '1 s' WHERE token_hash IN
    (SELECT token_hash FROM refresh_tokens LIMIT ${Math.min(1000, amounts.sessions)})`)
  await measure('sweep of 1,000 expired tokens', 'per row', async () => {
    await sweep()
    return Math.min(1000, amounts.sessions)
  })
  const limits = { maxCount: 100, maxBytes: 2 ** 26, replacedSince: new Date(0) }
  await measure('cleanup of versions, per page', 'per row', async () => {
    await pruneRevisions(database, limits)
    return amounts.pages
  })
  const now = Date.now()
  const purge = async (pages: number) =>
    await purgePages(database, new Date(now - pages * 1000), async () => {})
  await measure(
    'removal from the trash, nothing to do',
    'flat',
    async () => await purge(amounts.pages + 3600),
    RUNS
  )
  await measure('removal from the trash', 'per row', async () => await purge(amounts.pages - 500))
  const prune = async (hours: number) =>
    await pruneReads(database, {
      hoursSince: new Date(now - hours * HOUR_MS),
      daysSince: new Date(now - 2 * 366 * 24 * HOUR_MS)
    })
  await measure('cleanup of counts, nothing to do', 'flat', async () => await prune(35 * 24), RUNS)
  await measure('cleanup of counts, an hour of all pages', 'per row', async () => await prune(819))
  await measure('index of pages, nothing to do', 'flat', async () => await indexPages(database), RUNS)
  await measure(
    'look for deletions, nothing to do',
    'flat',
    async () => await findBegunDeletions(database).then(() => {}),
    RUNS
  )
}

/** Measures reports of reads, whose hours and days have counts already. */
async function measureReport (
  { admin, database, measure, note }: Pick<Place, 'admin' | 'database' | 'measure' | 'note'>,
  publicIds: readonly string[]
): Promise<void> {
  const counts = publicIds.map(() => 1)
  const processId = randomUUID()
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  let number = 0
  const store = async () => {
    await storeReads(database, {
      processId,
      number: ++number,
      hour,
      publicIds,
      reads: counts,
      notModified: counts
    })
    return publicIds.length
  }
  await store()
  const updates = async () => {
    await database.$queryRawUnsafe('SELECT pg_stat_force_next_flush()::text')
    const { rows: [found] } = await admin.query(`
      SELECT sum(n_tup_upd)::float8 AS all, sum(n_tup_hot_upd)::float8 AS hot,
        pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS wal
      FROM pg_stat_user_tables WHERE relname LIKE 'landing_page_reads_%'`)
    return found as { all: number, hot: number, wal: number }
  }
  const before = await updates()
  await measure('report of reads of 1,000 pages', 'per row', store, RUNS)
  const after = await updates()
  const hotShare = (after.hot - before.hot) / (after.all - before.all)
  const bytes = (after.wal - before.wal) / RUNS / publicIds.length
  note(`a report of reads, per page: ${Math.round(bytes)} bytes of WAL (hour and day, without full pages); ` +
    `${Math.round(hotShare * 100)} % of the updates are HOT`)
}

/** Measures deletions of accounts while another session has an old snapshot, as a backup does. */
export async function measureDeletions ({ url, database, measure }: Place): Promise<void> {
  const backup = new pg.Client({ connectionString: url })
  await backup.connect()
  await backup.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await backup.query('SELECT count(*) FROM users')
  const files = {
    filesAtOnce: 8,
    remove: async () => true,
    removeVariants: async () => {}
  } as unknown as FileStore
  const remove = async (email: string) => {
    const userId = await beginDeletion(database, operatorOf(email), false) as number
    await hidePages(database, userId, async () => {})
    return (await finishDeletion({ database, files }, userId)).pages
  }
  await measure(
    'deletion of an account of 1,000 pages, per page',
    'per row',
    async () => await remove('user2@example.com')
  )
  await measure(
    'deletion of an account of a fifth of all pages, per page',
    'per row',
    async () => await remove('owner@example.com')
  )
  await backup.end()
}
