import t from 'tap'
import { BOUNDARY, END, field, file, form, FORM, partHead, PNG } from '../assets/helpers.ts'
import { stored } from '../assets/stores.ts'
import { requestWith } from '../helpers/raw.ts'
import { hostileService, Probe } from './service.ts'

// Uploads whose framing is wrong, over a real connection. test/assets/upload.test.ts has the list by content; these are
// the ways that are about boundaries, heads of parts and what becomes of the connection.

const service = await hostileService(t, { MAX_UPLOAD_BYTES: '100000' })
const probe = new Probe(t, service.url)
const auth = { Authorization: service.account.headers.authorization }
const png = file(PNG, 'a.png', 'image/png')
const post = async (body: Buffer | string, what: string, type = FORM, headers: Record<string, string> = {}) =>
  await probe.send(requestWith(body, 'POST', '/assets', { ...auth, 'Content-Type': type, ...headers }), what, 'POST')
const part = (...lines: string[]): Buffer => Buffer.concat([Buffer.from(`--${BOUNDARY}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`, 'latin1'), PNG, Buffer.from(`\r\n${END}`)])
const DISPOSITION = 'Content-Disposition: form-data; name="asset[file]"; filename="a.png"'

t.test('a form whose framing is wrong leaves nothing, and the connection as it was or closed', async (t) => {
  const whole = form(png)
  const table: [what: string, status: number, body: Buffer | string, type?: string, headers?: Record<string, string>][] = [
    ['no boundary', 400, whole, 'multipart/form-data'],
    ['a boundary of spaces', 400, whole, 'multipart/form-data; boundary="   "'],
    ['a boundary of 10,000 characters', 400, whole, `multipart/form-data; boundary=${'b'.repeat(10_000)}`],
    ['a boundary in capitals', 400, whole, `multipart/form-data; boundary=${BOUNDARY.toUpperCase()}`],
    ['LF alone between lines', 400, Buffer.from(whole.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')],
    ['no empty line behind the head of a part', 422, `--${BOUNDARY}\r\n${DISPOSITION}\r\n--${BOUNDARY}--\r\n`],
    ['one dash too few at the end', 400, Buffer.concat([whole.subarray(0, -END.length), Buffer.from(`--${BOUNDARY}-\r\n`)])],
    ['a form inside of the form', 422, form({ disposition: 'form-data; name="files"', type: 'multipart/mixed; boundary=inner', content: `--inner\r\n${DISPOSITION}\r\n\r\nx\r\n--inner--\r\n` })],
    ['no disposition', 422, part('Content-Type: image/png')],
    ['another disposition', 422, part('Content-Disposition: attachment; name="asset[file]"; filename="a.png"')],
    ['a NUL for a name', 422, part('Content-Disposition: form-data; name="\0"; filename="a.png"')],
    ['101 fields', 422, form(...Array.from({ length: 101 }, (_, n) => field(`f${n}`, 'x')), png)],
    ['10,000 empty parts', 422, Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n`.repeat(10_000) + END)],
    ['a file over its limit', 413, form(file(Buffer.alloc(100_001, 'z')))],
    ['a field of that name', 422, form(field('asset[file]', 'x'))],
    ['an encoded body', 415, whole, FORM, { 'Content-Encoding': 'gzip' }],
    ['two content types', 415, whole, `application/json, ${FORM}`],
    ['only a preamble', 400, 'x'.repeat(50_000)],
    ['only the end', 422, END],
    ['bytes of any kind', 400, Buffer.from(Array.from({ length: 5000 }, (_, n) => (n * 7919) % 256))]
  ]
  const before = await stored(service.app)
  for (const [what, status, body, type, headers] of table) {
    probe.is(await post(body, what, type, headers), status, what)
    t.same(await stored(service.app), before, `${what}: nothing kept`)
  }
  t.equal(await service.app.database.asset.count(), 1)
  // Read as what they can only mean.
  probe.is(await post(whole, 'an open quote', `multipart/form-data; boundary="${BOUNDARY}`), 201, 'a boundary with a quote left open')
  probe.is(await post(part(DISPOSITION, `X: ${'x'.repeat(20_000)}`), 'a long head'), 201, 'a head of 20 KB behind what counts')
  probe.is(await post(form(file(Buffer.alloc(100_000, 'z'))), 'at the limit'), 201, 'a file at its limit')
})

t.test('whatever a file is called, its name is shown clean, and it is a path nowhere', async (t) => {
  const names: [written: string, shown: string][] = [
    ['a\\"b.png', 'a"b.png'], ['a%0d%0aX: y.png', 'a%0d%0aX: y.png'], ['../../a.png', 'a.png'], ['/etc/passwd', 'passwd'], ['C:\\\\x\\\\a.png', 'a.png'], ['.htaccess', '.htaccess'], ['...', 'file'], [' ', 'file'],
    ['a\t.png', 'a.png'], ['con.png', 'con.png'], ['<script>.png', '<script>.png'], ['%00.png', '%00.png'], ['__proto__', '__proto__'], ['a;b=c.png', 'a;b=c.png'], ['-rf', '-rf']
  ]
  for (const [written, shown] of names) {
    const answer = await post(part(`Content-Disposition: form-data; name="asset[file]"; filename="${written}"`, 'Content-Type: image/png'), written)
    t.equal(answer.status, 201, written)
    const { filename, url } = JSON.parse(answer.body.toString()) as { filename: string, url: string }
    t.equal(filename, shown, written)
    t.match(url, /\/uploads\/[0-9A-Za-z]{22}\.png$/, written)
  }
  const { published, temporary } = await stored(service.app)
  t.ok(published.every((name) => /^[0-9A-Za-z]{22}(\.(png|txt))?$/.test(name)), published.join())
  t.same(temporary, [])
})

t.test('the head of a part can not write into the answer', async (t) => {
  const answer = await post(Buffer.concat([partHead({ disposition: "form-data; name=\"asset[file]\"; filename*=UTF-8''a%0d%0aSet-Cookie:%20x=y.png", content: '' }), PNG, Buffer.from(`\r\n${END}`)]), 'CRLF')
  t.notMatch(answer.head, /set-cookie/i)
  t.ok([201, 422].includes(answer.status))
})
