import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import { buildTestApp, sendAs, signUp } from '../../helpers/app.ts'
import { BOUNDARY, END, field, file, form, FORM, GIF, noise, partHead, pathOf, PNG, post,
  upload } from '../../helpers/assets.ts'
import { backstage, onEachStore, stored } from '../../helpers/stores.ts'

const sha256 = (content: Buffer | string) => createHash('sha256').update(content).digest('hex')

onEachStore('an upload creates a record whose url returns the bytes', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const response = await upload(app, account, GIF, 'tiny.gif', 'text/html')
  t.equal(response.statusCode, 201)
  t.match(response.headers, {
    'content-type': /^application\/json/,
    'cache-control': 'no-store',
    location: `/assets/${response.json().id}`
  })
  const asset = response.json()
  t.strictSame(Object.keys(asset).sort(), [
    ...'byte_size checksum content_type created_at filename height id url variants width'.split(' ')
  ])
  t.match(asset, {
    filename: 'tiny.gif',
    content_type: 'image/gif',
    byte_size: GIF.length,
    checksum: sha256(GIF),
    width: 3,
    height: 2,
    id: /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    url: /^http:\/\/landfall\.test\/uploads\/[0-9A-Za-z]{22}\.gif$/,
    created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
  })
  t.ok(Math.abs(Date.parse(asset.created_at) - Date.now()) < 60_000)

  t.strictSame((await sendAs(app, account, 'GET', `/assets/${asset.id}`)).json(), { ...asset, used_by: [] })
  t.strictSame((await sendAs(app, account, 'GET', '/assets')).json(), [asset])
  t.ok((await app.inject(pathOf(asset))).rawPayload.equals(GIF))
  t.ok((await backstage(app).bytes(pathOf(asset).slice('/uploads/'.length))).equals(GIF))
  t.strictSame((await stored(app)).temporary, [])
})

t.test('width and height are null for files that are not images', async (t) => {
  const app = await buildTestApp(t)
  const response = await upload(app, await signUp(app), 'a,b\n1,2\n', 'table.csv', 'Text/CSV; charset=utf-8')
  t.match(response.json(), { content_type: 'text/csv', width: null, height: null })
  t.match(response.json().url, /\/uploads\/[0-9A-Za-z]{22}\.csv$/)
})

onEachStore('refused forms leave no file and no record', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const png = file(PNG, 'a.png', 'image/png')
  const whole = form(png)
  const big = noise(300_000)
  type Case = readonly [name: string, body: Buffer | string | undefined, contentType?: string]
  const named = (name: string) => ({ ...png, name })
  const cut = form(png).subarray(0, -END.length)
  const text = field('asset[file]', 'hello')
  const broken = field('asset[file]', '{', 'application/json')
  const long = field('asset[file]', `"${'x'.repeat(2000)}"`, 'application/json')
  const many = Array.from({ length: 1000 }, (_, index) => field(`f${index}`, 'x'))
  const lineBreak = {
    disposition: 'form-data; name="asset[file]"; filename*=UTF-8\'\'a%0d%0ab',
    content: PNG
  }
  const groups: readonly (readonly [status: number, message: RegExp, cases: readonly Case[]])[] = [
    [422, /^File can't be blank/, [
      ['no part at all', END],
      ['an empty body', ''],
      ['no body', undefined],
      ['no file', form(field('title', 'x'))],
      ['a file with another name', form(named('file'))],
      ['a file with a similar name', form(named('asset[file][]'))],
      ['a file without a name', form({ disposition: 'form-data; filename="a.png"', content: PNG })],
      ['only a file named like a property of Object.prototype', form(named('toString'))],
      ['a file name with a line break', form(lineBreak)]
    ]],
    [422, /^File is empty: choose a file/, [
      ['an empty file', form(file('', 'a.png', 'image/png'))],
      ['an input left empty', form(file('', '', 'application/octet-stream'))]
    ]],
    [422, /^File must be a file/, [
      ['a text field of that name', form(text)],
      ['a text field of that name, empty', form(field('asset[file]', ''))],
      ['a text field of that name, then the file', form(text, png)],
      ['the file, then a text field of that name', form(png, text)],
      ['a field of that name with invalid JSON', form(broken)],
      ['a field of that name with invalid JSON, then the file', form(broken, png)],
      ['the file, then a field of that name with JSON that is too long', form(png, long)]
    ]],
    [422, /only file/, [
      ['a second file', form(png, png)],
      ['a second file with another name', form(png, named('other'))],
      ['a second file named like a property of Object.prototype', form(png, named('constructor'))],
      ['a file named like a property of Object.prototype, then the file', form(named('__proto__'), png)],
      ['a second file, empty', form(png, file('', 'b.png'))],
      ['an empty file, then another file', form(file(''), png)],
      ['a second file after a large one', form(file(big), file(big))],
      ['three files', form(png, png, png)]
    ]],
    [422, /too many fields/, [['1,000 fields', form(...many, png)]]],
    [415, /multipart\/form-data/, [
      ['no Content-Type', whole, ''],
      ['JSON', '{"asset":{"file":"x"}}', 'application/json'],
      ['broken JSON', '{', 'application/json'],
      ['a form without files', 'asset%5Bfile%5D=x', 'application/x-www-form-urlencoded'],
      ['another multipart type', whole, `multipart/mixed; boundary=${BOUNDARY}`],
      ['a type similar to multipart', whole, `multipart/form-datax; boundary=${BOUNDARY}`],
      ['application/octet-stream', PNG, 'application/octet-stream']
    ]],
    [400, /multipart/, [
      ['no boundary', whole, 'multipart/form-data'],
      ['an empty boundary', whole, 'multipart/form-data; boundary='],
      ['another boundary', whole, 'multipart/form-data; boundary=other'],
      ['a body that is not multipart', 'hello'],
      ['no closing boundary', cut],
      ['truncated in the closing boundary', whole.subarray(0, -4)],
      ['truncated in the file', whole.subarray(0, -END.length - 10)],
      ['truncated in a large file', Buffer.concat([partHead(file('')), big])],
      ['truncated in a second file', Buffer.concat([cut, partHead(named('constructor')), big])],
      ['truncated in the headers of a part', partHead(png).subarray(0, -6)],
      ['truncated after the headers of a part', partHead(png)],
      ['truncated in a field', Buffer.concat([partHead(field('a', '')), Buffer.from('xxx')])],
      ['truncated after the file', Buffer.concat([cut, partHead(field('a', '')), Buffer.from('xxx')])],
      ['no closing boundary after a field', form(field('toString', 'x'), png).subarray(0, -END.length)]
    ]]
  ]
  for (const [status, message, cases] of groups) {
    for (const [name, body, contentType] of cases) {
      const response = await post(app, account, body, contentType)
      t.match([response.statusCode, response.json()], [status, { errors: [message] }], name)
    }
    t.strictSame(await stored(app), { published: [], temporary: [] }, `${status} ${message}: no file is left`)
  }
  t.equal(await app.database.asset.count(), 0)
})

t.test('forms with other fields, a preamble or an epilogue are accepted', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const png = file(PNG, 'a.png', 'image/png')
  const nasty = form(field('__proto__', 'x'), field('constructor', 'x'), png, field('toString', 'x'))
  const json = form(
    field('a', '{', 'application/json'),
    png,
    field('b', '{"__proto__":1}', 'application/json')
  )
  const around = [Buffer.from('preamble\r\n'), form(png), Buffer.from('epilogue '.repeat(20_000))]
  const nameless = Buffer.from(`--${BOUNDARY}\r\nX: y\r\n\r\nz\r\n`)
  const cases: [name: string, body: Buffer, contentType?: string][] = [
    ['only the file', form(png)],
    ['fields before and after', form(field('title', 'x'), png, field('asset[title]', 'y'))],
    ['fields named like properties of Object.prototype', nasty],
    ['JSON fields, one of them invalid', json],
    ['a field of 500 KB', form(field('long', 'x'.repeat(500_000)), png)],
    ['a quoted boundary', form(png), `Multipart/Form-Data; charset=utf-8; boundary="${BOUNDARY}"`],
    ['a preamble and an epilogue', Buffer.concat(around)],
    ['a part without a disposition', Buffer.concat([nameless, form(png)])]
  ]
  for (const [name, body, contentType] of cases) {
    const response = await post(app, account, body, contentType ?? FORM)
    t.equal(response.statusCode, 201, name)
    t.match(response.json(), { byte_size: PNG.length, checksum: sha256(PNG), filename: 'a.png' }, name)
  }
  t.equal((await stored(app)).published.length, cases.length)
})

t.test('file names become base names without control characters', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  // What is done with names: test/unit/assets/filename.test.ts
  const cases: [disposition: string, filename: string][] = [
    ['filename="täst 日本.png"', 'täst 日本.png'],
    ['filename="C:\\Users\\me\\täst.png"', 'täst.png'],
    ['filename="../../../etc/passwd"', 'passwd'],
    ['filename=".."', 'file'],
    ['filename=""', 'file'],
    ['filename="a%22b%0D%0Ac.png"', 'a"bc.png'],
    ['filename="a%2522b%41.png"', 'a%2522b%41.png'],
    ['filename="a\\"b.png"', 'a"b.png'],
    ["filename*=UTF-8''a%00b%1b.png", 'ab.png'],
    ["filename*=UTF-8''%e2%80%aegpj.exe", 'gpj.exe'],
    ["filename*=UTF-8''..%2f..%2fx.png", 'x.png'],
    [`filename="${'x'.repeat(2000)}.png"`, `${'x'.repeat(251)}.png`]
  ]
  const send = async (disposition: string | Buffer) =>
    await post(app, account, form({ disposition, type: 'image/png', content: PNG }))
  for (const [name, filename] of cases) {
    const response = await send(`form-data; name="asset[file]"; ${name}`)
    t.match([response.statusCode, response.json()], [201, { filename }], name.slice(0, 50))
  }
  const broken = Buffer.concat([
    Buffer.from('form-data; name="asset[file]"; filename="a'),
    Buffer.from([0xff, 0xc3]),
    Buffer.from('.png"')
  ])
  t.equal((await send(broken)).statusCode, 201)
  t.ok((await app.database.asset.findMany()).every((asset) => asset.filename.isWellFormed()))
  const { published, temporary } = await stored(app)
  t.ok(published.every((name) => /^[0-9A-Za-z]{22}\.png$/.test(name)), published.join())
  t.same(temporary, [])
})

onEachStore('a file of MAX_UPLOAD_BYTES is accepted, one byte more gets 413', async (t, build) => {
  const app = await build(t, { MAX_UPLOAD_BYTES: '200000' })
  const account = await signUp(app)
  const content = randomBytes(200_001)
  const whole = content.subarray(0, 200_000)
  t.equal((await upload(app, account, whole)).json().checksum, sha256(whole))
  const before = await stored(app)
  for (
    const body of [
      form(file(content)),
      form(file(content), field('a', 'b')),
      form(file(content), file('x')),
      form(file(randomBytes(3_000_000)))
    ]
  ) {
    const response = await post(app, account, body)
    t.equal(response.statusCode, 413)
    t.strictSame(response.json(), { errors: ['File is too large (maximum is 200000 bytes)'] })
    t.strictSame(await stored(app), before)
  }
})

t.test('only bytes of an allowed type are accepted', async (t) => {
  const app = await buildTestApp(t, { ALLOWED_UPLOAD_TYPES: 'image/*, text/csv, message/*' })
  const account = await signUp(app)
  t.equal((await upload(app, account, PNG, 'a.html', 'text/html')).statusCode, 201)
  t.equal((await upload(app, account, 'a,b', 'a.csv', 'text/csv')).statusCode, 201)
  const before = await stored(app)
  const refused: [content: string, type: string, sees: string][] = [
    ['%PDF-1.4\n', 'image/png', 'application/pdf'],
    ['<html>', 'image/png', 'application/octet-stream'],
    ['a,b', 'text/html', 'text/html'],
    ['a,b', 'message/rfc822', 'message/rfc822'] // a wildcard matches only detected types
  ]
  for (const [content, type, sees] of refused) {
    const response = await upload(app, account, content, 'a.png', type)
    t.equal(response.statusCode, 422)
    t.strictSame(response.json(), { errors: [`File has a type that is not allowed (${sees})`] })
  }
  t.strictSame(await stored(app), before)
})
