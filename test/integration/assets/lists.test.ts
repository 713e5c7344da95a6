import t from 'tap'
import { buildTestApp, nextOf, sendAs, signUp, type Account } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { planOf, watchStatements } from '../../helpers/plans.ts'
import { query } from '../../helpers/servers.ts'

// Lists of assets that are searched and sorted.

const SORTS = ['created', 'filename', 'byte_size']
const SCAN_LIMIT = 20_000

const app = await buildTestApp(t)
const sql = async (text: string) => await query(app.config.DATABASE_URL ?? '', text)
const ask = async (url: string, account: Account) => await sendAs(app, account, 'GET', url)

/** Follows the links of a list. Returns the names in each part. */
async function walk (parameters: string, account: Account): Promise<string[][]> {
  const parts: string[][] = []
  for (let next: string | undefined = `/assets?${parameters}`; next !== undefined;) {
    const response: Awaited<ReturnType<typeof ask>> = await ask(next, account)
    if (response.statusCode !== 200) throw new Error(`${next}: ${response.body}`)
    parts.push(response.json().map(({ filename }: { filename: string }) => filename))
    next = nextOf(response)
  }
  return parts
}
const names = async (parameters: string, account: Account) => (await walk(parameters, account)).flat()

let stored = 0
/** Stores rows of assets, in their order. */
async function store ({ user }: Account, files: readonly [name: string, type: string, size: number][]) {
  for (const [name, type, size] of files) {
    await app.database.asset.create({
      data: {
        userId: user.id,
        storageKey: `stored-${++stored}`,
        filename: name,
        contentType: type,
        byteSize: BigInt(size),
        checksum: '0'.repeat(64)
      }
    })
  }
}

t.test('an asset is found by its URL, its key or the URL of a variant, by its owner alone', async (t) => {
  const [account, other] = [await signUp(app), await signUp(app)]
  const { url } = (await upload(app, account, PNG, 'dot.png')).json()
  await store(account, [['later.png', 'image/png', 1]])
  const [, stem] = /([0-9A-Za-z]{22})\.png$/.exec(url) ?? []
  for (const q of [url, `${stem}.png`, stem, `${stem}/w640.webp`]) {
    t.same(await names(`q=${encodeURIComponent(q)}&limit=1`, account), ['dot.png'], q)
    t.same(await names(`q=${encodeURIComponent(q)}`, other), [])
  }
  await store(account, [[`${'x'.repeat(22)}.png`, 'image/png', 1]])
  t.same(await names(`q=${'x'.repeat(22)}.png`, account), [`${'x'.repeat(22)}.png`], 'a name of this form')
})

t.test('assets are sorted by creation, name or size, and found by a part of the name', async (t) => {
  const [account, other] = [await signUp(app), await signUp(app)]
  const files: [string, string, number][] = [
    ['zebra.png', 'image/png', 5],
    ['Äpfel 100%.jpg', 'image/jpeg', 9_000_000_000],
    ['apfel_1.pdf', 'application/pdf', 7],
    ['APFEL 1000.txt', 'text/plain', 7],
    ['éclair\\.bin', 'application/octet-stream', 1]
  ]
  await store(account, files)
  await store(other, files)
  const [zebra, apples, pdf, text, eclair] = files.map(([name]) => name)
  const expected: Record<string, unknown[]> = {
    created: [eclair, text, pdf, apples, zebra],
    filename: [apples, text, pdf, eclair, zebra],
    byte_size: [apples, text, pdf, zebra, eclair]
  }
  for (const sort of SORTS) {
    for (const limit of [1, 2, 5, 100]) {
      t.same(await names(`sort=${sort}&limit=${limit}`, account), expected[sort], `${sort} ${limit}`)
    }
  }
  for (
    const [q, found] of [
      ['ÁPFEL', [text, pdf, apples]],
      ['0%', [apples]],
      ['l_1', [pdf]],
      ['r\\', [eclair]],
      ['\0', []],
      ['nothing', []]
    ] as const
  ) t.same(await names(`q=${encodeURIComponent(q)}&limit=2`, account), found, q)
  t.same(await names('q=apfel&sort=filename&limit=1&type=image', account), [apples])
  t.same(await names('q=%ED%A0%80', account), [], 'bytes of a lone surrogate')
})

t.test('each media type belongs to one type', async (t) => {
  const account = await signUp(app)
  const types: Record<string, string[]> = {
    image: ['image/png', 'image/svg+xml'],
    audio: ['audio/mpeg'],
    video: ['video/mp4'],
    font: ['font/woff2', 'application/vnd.ms-fontobject'],
    document: ['application/pdf', 'text/csv', 'application/msword', 'application/vnd.ms-excel'],
    other: ['application/zip', 'application/octet-stream', 'application/json', 'model/gltf-binary']
  }
  await store(account, Object.values(types).flat().map((type) => [type, type, 1]))
  for (const [type, found] of Object.entries(types)) {
    t.same(await names(`type=${type}&limit=2`, account), found.toReversed(), type)
  }
})

t.test('a Link carries all parameters, and a cursor that is not one of the list is a 422', async (t) => {
  const account = await signUp(app)
  await store(account, [['a', 'image/png', 1], ['a b', 'image/png', 2]])
  const cursors: Record<string, string> = {}
  for (const sort of SORTS) {
    const link = nextOf(await ask(`/assets?sort=${sort}&q=A&type=image&limit=1`, account)) ?? ''
    const { cursor = '', ...parameters } = Object.fromEntries(new URL(link, 'http://a').searchParams)
    t.same(parameters, { limit: '1', sort, q: 'A', type: 'image' })
    cursors[sort] = cursor
  }
  const errorsOf = async (parameters: string) => (await ask(`/assets?${parameters}`, account)).json().errors
  for (const sort of SORTS) {
    for (const [of, cursor] of Object.entries(cursors)) {
      const expected = of === sort ? undefined : [`Cursor is of a list with the sort ${of}`]
      t.same(await errorsOf(`sort=${sort}&cursor=${cursor}`), expected)
    }
  }
  const id = Buffer.from(cursors.created ?? '', 'base64url')
  for (
    const text of ['byte_size -1', `byte_size ${'9'.repeat(19)}`, 'byte_size x', 'filename ', 'filename a\0']
  ) {
    const cursor = Buffer.concat([id, Buffer.from(text)]).toString('base64url')
    t.same(await errorsOf(`sort=${text.split(' ')[0]}&cursor=${cursor}`), ['Cursor is invalid'], text)
  }
  t.same(await errorsOf('sort=label'), ['Sort must be created or filename or byte_size'])
  t.same(await errorsOf('type=text'), ['Type must be image or audio or video or font or document or other'])
})

t.test('a name that becomes much longer in its search form can be stored and listed', async (t) => {
  const account = await signUp(app)
  const long = ['\ufdfa'.repeat(85), '\ufdfb\ufdfa'.repeat(42)]
  for (const name of long) t.equal((await upload(app, account, Buffer.from('text'), name)).statusCode, 201)
  t.same((await names('sort=filename&limit=1', account)).toSorted(), long.toSorted())
})

t.test('a request looks at 20,000 rows at most, whatever the size of the account and the plan', async (t) => {
  const big = await signUp(app)
  const rows = 25_000
  await sql(`
    INSERT INTO users (email, password_hash) SELECT 'small-' || n || '@example.com', '' FROM generate_series(1, 400) n;
    WITH owners AS (SELECT array_agg(id) AS ids FROM users WHERE email LIKE 'small-%')
    INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum)
    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
      CASE WHEN n > ${rows} THEN ids[n % 400 + 1] ELSE ${big.user.id} END, 'key-' || n, md5(n::text) || '.bin',
      'application/octet-stream', n::bigint * 7919 % ${rows} + 1, repeat('0', 64)
    FROM generate_series(1, ${rows} + 20000) n, owners`)
  await sql('ANALYZE assets')
  const captured = watchStatements(app)
  for (const sort of SORTS) {
    t.same(await walk(`sort=${sort}&q=needle`, big), [[], []], `${sort}: a full scan, and the rest`)
    t.same(await walk(`sort=${sort}&type=image`, big), [[], []])
    t.equal((await ask(`/assets?sort=${sort}&limit=100`, big)).json().length, 100)
  }
  const lists = captured.filter(({ statement }) => statement.text.includes('isMatch'))
  for (const mode of ['force_custom_plan', 'force_generic_plan']) {
    for (const { statement, values } of lists.filter(({ values }) => values.types === null)) {
      const { nodes, buffers } = await planOf(app.config.DATABASE_URL ?? '', statement, values, mode)
      const what = `${mode} ${values.sort} ${values.q}`
      t.ok(Math.max(...nodes.map(({ rows }) => rows)) <= SCAN_LIMIT, `${what}: rows`)
      t.ok(buffers < 4 * SCAN_LIMIT, `${what}: ${buffers} buffers`)
    }
  }
})
