import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { buildTestApp, createPage, nextOf, sendAs, signUp, testSettings, walkList,
  type Account } from '../../helpers/app.ts'
import { planOf, watchStatements } from '../../helpers/plans.ts'
import { query } from '../../helpers/servers.ts'

// Lists of pages and summaries. hostile/pagination.test.ts has lists that change while they are read.

const SUMMARIES = '/manage/landing_page_summaries'
const LISTS = ['/manage/landing_pages', SUMMARIES]
const SORTS = ['created', 'updated', 'label']
const SCAN_LIMIT = 20_000
const HOUR_MS = 3_600_000
const NO_READS = Array<number>(24).fill(0)

const app = await buildTestApp(t)
const sql = async (text: string) => await query(app.config.DATABASE_URL ?? '', text)

const ask = async (url: string, account: Account) => await sendAs(app, account, 'GET', url)
const idsIn = (response: LightMyRequestResponse): string[] =>
  response.json().map(({ id }: { id: string }) => id)
const walk = async (url: string, account: Account) => await walkList(app, account, url)

/** Creates pages with these titles and returns their ids; without a title if it is null. */
async function titled (account: Account, titles: readonly (string | null)[]): Promise<string[]> {
  const ids = []
  for (const title of titles) ids.push((await createPage(app, account, JSON.stringify({ title }))).id)
  return ids
}

/** The titles of pages that are found. */
async function search (account: Account, text: string, sort = 'created'): Promise<(string | null)[]> {
  const url = `/manage/landing_page_summaries?sort=${sort}&q=${encodeURIComponent(text)}`
  return (await ask(url, account)).json().map(({ label }: { label: string | null }) => label)
}

t.test('a summary has the record of a page, its label and its size, but not its document', async (t) => {
  const owner = await signUp(app)
  const document = ' { "price": 1e400, "title": "Caf\\u00e9 \\ud83d" , "text": "€"}'
  const { id } = await createPage(app, owner)
  await sendAs(app, owner, 'PUT', `/manage/landing_pages/${id}/document`, document)
  const { current_data: _, ...record } = (await sendAs(app, owner, 'GET', `/manage/landing_pages/${id}`))
    .json()
  const response = await ask(SUMMARIES, owner)
  t.match(response.headers, { 'cache-control': 'private, no-cache', link: undefined })
  t.same(response.json(), [{
    ...record,
    version: 2,
    label: 'Café \ufffd',
    byte_size: Buffer.byteLength(document),
    has_draft: false,
    publish_at: null,
    unpublish_at: null,
    reads: NO_READS
  }])
})

t.test('reads are those of each of the last 24 hours, with 304s, of all replicas', async (t) => {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, settings)
  const owner = await signUp(app)
  const [page, other] = [await createPage(app, owner), await createPage(app, owner)]
  const { now } = Date
  const startedAt = now()
  t.teardown(() => {
    Date.now = now
  })
  for (const hours of [-24, -23, -1, 0, 0, 0]) {
    Date.now = () => startedAt + hours * HOUR_MS
    const replica = await buildTestApp(t, settings)
    const url = `/landing_pages/${page.public_id}`
    await replica.inject({ url })
    await replica.inject({ url, headers: { 'if-none-match': page.etag } })
    await replica.close()
  }
  const [second, first] = (await sendAs(app, owner, 'GET', SUMMARIES)).json()
  t.same([first?.id, first?.reads], [page.id, [2, ...Array<number>(21).fill(0), 2, 6]])
  t.same([second?.id, second?.reads], [other.id, NO_READS])
})

t.test('lists are sorted by creation, last change or label, with ties by id, in parts of any size', async (t) => {
  const [account, other] = [await signUp(app), await signUp(app)]
  const titles = ['zebra', 'Äpfel', null, 'apfel', 'Zürich', 'apfelmus', 'Apfel', 'éclair', null, '10']
  const ids = await titled(account, titles)
  await titled(other, titles)
  const at = (...indexes: number[]) => indexes.map((index) => ids[index])
  for (const [index, minute] of [5, 9, 9, 1, 7, 7, 3, 2, 8, 7].entries()) {
    const set = `SET updated_at = '2026-01-01T10:0${minute}:00.123Z'`
    await sql(`UPDATE landing_pages ${set} WHERE id = '${ids[index]}'`)
    await sql(`UPDATE landing_page_summaries ${set} WHERE page_id = '${ids[index]}'`)
  }
  const column = async (text: string) => (await sql(text)).map(({ id }) => id)
  const unlabelled = await column(`SELECT id FROM landing_pages WHERE id IN ('${ids[2]}', '${ids[8]}')
    ORDER BY lower(public_id) COLLATE "C"`)
  const labelled = await column(`SELECT page_id AS id FROM landing_page_summaries
    WHERE user_id = ${account.user.id} AND search_text LIKE 'apfel' || chr(10) || '%' ORDER BY search_text`)
  const expected: Record<string, unknown[]> = {
    created: ids.toReversed(),
    updated: at(2, 1, 8, 9, 5, 4, 0, 6, 7, 3),
    label: [...unlabelled, ...at(9), ...labelled, ...at(5, 7, 0, 4)]
  }
  for (const list of LISTS) {
    t.same((await walk(list, account)).flat(), expected.created)
    for (const sort of SORTS) {
      for (const limit of [1, 3, 10, 100]) {
        const parts = await walk(`${list}?sort=${sort}&limit=${limit}`, account)
        t.same(parts.flat(), expected[sort], `${list} ${sort} ${limit}`)
        t.equal(parts.length, Math.ceil(10 / limit))
      }
    }
  }
})

t.test('q finds a part of the label or public id, without regard to case and accents', async (t) => {
  const account = await signUp(app)
  const titles = [
    ...[
      'Crème brûlée',
      'CREME FRAICHE',
      '100% wool',
      '1000 wools',
      'a_b',
      'aXb',
      'back\\slash',
      'nul \0 end'
    ],
    ...[`long ${'x'.repeat(120)}`, '🍰 cake', 'ﬁne', 'Straße', null]
  ]
  await titled(account, titles)
  await titled(await signUp(app), titles)
  const cases: [text: string, found: (string | null)[]][] = [
    ['creme', ['CREME FRAICHE', 'Crème brûlée']],
    ['ÈME BRU', ['Crème brûlée']],
    ['bru\u0302le\u0301e', ['Crème brûlée']],
    ['%', ['100% wool']],
    ['0% W', ['100% wool']],
    ['a_b', ['a_b']],
    ['\\', ['back\\slash']],
    ["'", []],
    ['nul \0', ['nul \ufffd end']],
    ['\0', ['nul \ufffd end']],
    ['🍰', ['🍰 cake']],
    ['fin', ['ﬁne']],
    ['x'.repeat(100), [`long ${'x'.repeat(120)}`]],
    ['nothing', []],
    ['null', []]
  ]
  for (const [text, found] of cases) t.same(await search(account, text), found, JSON.stringify(text))
  t.same(await search(account, 'creme', 'label'), ['Crème brûlée', 'CREME FRAICHE'])
  t.same(await search(account, 'creme', 'updated'), ['CREME FRAICHE', 'Crème brûlée'])
  t.equal((await search(account, '\u0301')).length, titles.length, 'only an accent is in all')

  const pages = (await ask('/manage/landing_pages', account)).json()
  for (const part of [pages[0].public_id, pages[0].public_id.slice(3, 20).toUpperCase()]) {
    for (const list of LISTS) t.same(idsIn(await ask(`${list}?q=${part}`, account)), [pages[0].id])
  }
  const lone = await ask('/manage/landing_pages?q=%ED%A0%80', account)
  t.same([lone.statusCode, lone.json()], [200, []], 'bytes of a lone surrogate')

  const tooLong = 'Q is too long (maximum is 100 characters)'
  const bad: [string, string][] = [
    ['q=', "Q can't be blank"],
    [`q=${'x'.repeat(101)}`, tooLong],
    [`q=${encodeURIComponent('🍰'.repeat(101))}`, tooLong],
    ['q=a&q=b', 'Q must be a string'],
    ['sort=name', 'Sort must be created or updated or label'],
    ['sort=', 'Sort must be created or updated or label']
  ]
  for (const list of LISTS) {
    t.equal((await ask(`${list}?q=${encodeURIComponent('🍰'.repeat(100))}`, account)).statusCode, 200)
    for (const [parameters, message] of bad) {
      const response = await ask(`${list}?${parameters}`, account)
      t.same([response.statusCode, response.json()], [422, { errors: [message] }], parameters)
    }
  }
})

t.test('a Link carries all parameters, and a cursor that is not one of the list is a 422', async (t) => {
  const account = await signUp(app)
  await titled(account, ['Ä > 1', 'ä > 2', 'a > 3', null])
  const q = encodeURIComponent('ä >')
  for (const list of LISTS) {
    const cursors: Record<string, string> = {}
    for (const sort of SORTS) {
      const link = nextOf(await ask(`${list}?sort=${sort}&q=${q}&limit=2`, account)) ?? ''
      const { cursor = '', ...parameters } = Object.fromEntries(new URL(link, 'http://a').searchParams)
      t.same(parameters, { limit: '2', sort, q: 'ä >' })
      cursors[sort] = cursor
      t.equal(idsIn(await ask(link, account)).length, 1)
    }
    for (const sort of SORTS) {
      for (const [of, cursor] of Object.entries(cursors)) {
        const response = await ask(`${list}?sort=${sort}&cursor=${cursor}`, account)
        const expected = of === sort ? [200] : [422, [`Cursor is of a list with the sort ${of}`]]
        t.match([response.statusCode, response.json().errors], expected)
      }
    }
    const id = Buffer.from(cursors.created ?? '', 'base64url')
    const made = (text: string | Buffer) => Buffer.concat([id, Buffer.from(text)]).toString('base64url')
    const bad = [
      ...[' ', 'updated', 'updated ', 'updated -1', `updated ${'9'.repeat(15)}`, 'updated infinity']
        .map(made),
      ...['label ', 'label a\0b', 'constructor a', '__proto__ a', 'created a'].map(made),
      ...[made(Buffer.from('label \xff', 'latin1')), `${cursors.updated}AA`, `${cursors.label}=`],
      ...[`${cursors.created?.slice(0, -1)}B`, `${cursors.created?.slice(0, -1)}`]
    ]
    for (const cursor of bad) {
      for (const sort of SORTS) {
        const response = await ask(`${list}?sort=${sort}&cursor=${cursor}`, account)
        t.same([response.statusCode, response.json().errors], [422, ['Cursor is invalid']], cursor)
      }
    }
    for (const text of ['label 🍰', `label ${'ä'.repeat(300)}`, 'updated 0', `updated ${'9'.repeat(14)}`]) {
      const response = await ask(`${list}?sort=${text.split(' ')[0]}&cursor=${made(text)}`, account)
      t.equal(response.statusCode, 200, text)
    }
  }
})

t.test('large documents end a part of a sorted list early', async (t) => {
  const account = await signUp(app)
  const ids = []
  for (const title of ['c', 'a', 'b']) {
    ids.push((await createPage(app, account, JSON.stringify({ title, text: 'x'.repeat(300_000) }))).id)
  }
  t.same(await walk('/manage/landing_pages?sort=label', account), [[ids[1]], [ids[2]], [ids[0]]])
})

t.test('pages that are not indexed yet are only in the plain list, with their labels', async (t) => {
  const account = await signUp(app)
  const [old = '', page] = await titled(account, ['old', 'page'])
  await sql(`UPDATE landing_pages SET current_data = '{"title":"new"}', version = version + 1 WHERE id = '${old}'`)
  const labels = async (parameters: string) =>
    (await ask(`/manage/landing_page_summaries${parameters}`, account)).json<{ label: string }[]>()
      .map(({ label }) => label)
  t.same(await labels(''), ['page', 'new'], 'the label is that of the current document')
  await sql(`DELETE FROM landing_page_summaries WHERE page_id = '${old}'`)
  t.same(await labels(''), ['page', 'new'])
  for (const parameters of ['?sort=updated', '?sort=label', '?q=e']) {
    t.same(await labels(parameters), ['page'])
  }
  for (const list of LISTS) t.same((await walk(`${list}?limit=1`, account)).flat(), [page, old])
})

t.test('a request looks at 20,000 rows at most, whatever the size of the account and the plan', async (t) => {
  const big = await signUp(app)
  const rows = 25_000
  // Older pages of a large account, and newer ones of many small accounts.
  await sql(`
    INSERT INTO users (email, password_hash) SELECT 'small-' || n || '@example.com', '' FROM generate_series(1, 400) n;
    WITH owners AS (SELECT array_agg(id) AS ids FROM users WHERE email LIKE 'small-%'), pages AS (
      INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash, indexed_version, updated_at)
      SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'page' || lpad(n::text, 18, '0'),
        CASE WHEN n > ${rows} THEN ids[n % 400 + 1] ELSE ${big.user.id} END, '{}', n::text, 1,
        '2026-01-01T00:00:00Z'::timestamptz + (n::bigint * 7919 % ${rows}) * interval '1 s'
      FROM generate_series(1, ${rows} + 15000) n, owners RETURNING id, public_id, user_id, updated_at
    )
    INSERT INTO landing_page_summaries (page_id, user_id, label, search_text, updated_at)
    SELECT id, user_id, 'Page', md5(public_id) || chr(10) || public_id, updated_at FROM pages`)
  await titled(await signUp(app), ['needle'])
  await sql('ANALYZE landing_pages, landing_page_summaries')

  const captured = watchStatements(app)
  for (const list of LISTS) {
    for (const sort of SORTS) {
      const parts = await walk(`${list}?sort=${sort}&q=needle`, big)
      t.same(parts, [[], []], `${list} ${sort}: a full scan, and the rest`)
    }
  }
  t.same(await walk('/manage/landing_pages?updated_since=1970-01-01&q=needle', big), [[], []])
  const last = `page${String(rows).padStart(18, '0')}`
  t.same((await walk(`/manage/landing_pages?sort=updated&q=${last}`, big)).flat().length, 1)
  t.equal(idsIn(await ask('/manage/landing_pages', big)).length, 50, 'the default is 50')
  for (const sort of SORTS) {
    t.equal(idsIn(await ask(`/manage/landing_pages?sort=${sort}&limit=100`, big)).length, 100)
  }
  await sql(`UPDATE landing_pages SET deleted_at = updated_at WHERE user_id = ${big.user.id}; ANALYZE landing_pages`)
  t.equal(idsIn(await ask('/manage/deleted_pages?limit=100', big)).length, 100)
  const { statement } = captured.find(({ statement }) => statement.text.includes('isMatch')) ?? {}
  if (statement === undefined) throw new Error('There was no list')
  for (const mode of ['force_custom_plan', 'force_generic_plan']) {
    for (const { values } of captured.filter((one) => one.statement === statement)) {
      const { nodes, buffers } = await planOf(app.config.DATABASE_URL ?? '', statement, values, mode)
      const what = `${mode} ${values.sort} ${values.q}`
      t.ok(Math.max(...nodes.map(({ rows }) => rows)) <= SCAN_LIMIT, `${what}: rows`)
      t.ok(buffers < 4 * SCAN_LIMIT, `${what}: ${buffers} buffers`)
    }
  }
})

t.test('updated_since lists changes, the oldest first, and loses none that is made meanwhile', async (t) => {
  const account = await signUp(app)
  const list = '/manage/landing_pages?updated_since='
  const ids = await titled(account, ['a', 'b', 'c', 'd', 'e'])
  await titled(await signUp(app), ['other'])
  const write = async (method: 'PUT' | 'POST' | 'PATCH' | 'DELETE', path: string, payload?: object) => {
    const { statusCode, body } = await sendAs(app, account, method, `/manage/landing_pages/${path}`, payload)
    if (statusCode >= 300) throw new Error(body)
  }
  const records = (await ask(`${list}1970-01-01`, account)).json()
  t.same(records.map(({ id }: { id: string }) => id), ids)
  const [, second, last] = [records[0], records[1], records[4]].map(({ updated_at: at }) => at)
  t.same(idsIn(await ask(list + second, account)), ids.slice(1), 'inclusive')
  t.same(idsIn(await ask(`${list}${second}&q=${records[3].public_id}`, account)), [ids[3]])

  const first = await ask(`${list}1970-01-01&limit=2`, account)
  await write('PUT', `${ids[0]}/document`, { title: 'A' })
  await write('PUT', `${ids[3]}/document`, { title: 'D' })
  t.same(
    [idsIn(first), ...await walk(nextOf(first) as string, account)].flat(),
    [ids[0], ids[1], ids[2], ids[4], ids[0], ids[3]],
    'a page that is written meanwhile comes last'
  )

  await write('POST', `${ids[1]}/unpublish`)
  await write('PATCH', ids[2] as string, { key: 'changes' })
  await write('PUT', `${ids[4]}/draft`, { title: 'a draft changes no page' })
  await write('DELETE', ids[0] as string)
  const changed = await ask(`${list}${new Date(Date.parse(last) + 1).toISOString()}`, account)
  t.same(idsIn(changed), [ids[3], ids[1], ids[2]], 'without the one in the trash')
  t.equal(changed.json()[1].published, false)
})

t.test('a list has an ETag, which changes with each page in it', async (t) => {
  const account = await signUp(app)
  const [id] = await titled(account, ['a', 'b', 'c'])
  const url = '/manage/landing_pages?updated_since=2026-01-01&limit=2'
  const known = async (etag: unknown) => {
    const { statusCode, headers: { link } } = await sendAs(app, account, 'GET', url, undefined, {
      'if-none-match': String(etag)
    })
    return [statusCode, link !== undefined]
  }
  const before = (await ask(url, account)).headers.etag
  t.same(await known(before), [304, true])
  await sendAs(app, account, 'PATCH', `/manage/landing_pages/${id}`, { key: 'other' })
  t.same(await known(before), [200, true])

  const rule = 'must be a date such as 2026-11-23, or a time such as 2026-11-23T10:00:00Z'
  for (
    const [query, error] of [
      ['updated_since=yesterday', `Updated since ${rule}`],
      ['updated_since=2026-01-01&sort=label', "Sort can't be used with updated_since"],
      ['updated_since=2026-01-01&cursor=x', 'Cursor is invalid']
    ]
  ) {
    const response = await ask(`/manage/landing_pages?${query}`, account)
    t.same([response.statusCode, response.json().errors], [422, [error]])
  }
})
