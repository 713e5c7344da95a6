import t from 'tap'
import { BOUNDARY, END, field, file, form, FORM, PNG } from '../../helpers/assets.ts'
import { stored } from '../../helpers/stores.ts'
import { requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'

// Uploads with malformed framing, over a real connection: boundaries, headers of parts and the state of the
// connection. Tests of other malformed forms: test/integration/assets/upload.test.ts.

const service = await hostileService(t, { MAX_UPLOAD_BYTES: '100000' })
const probe = new Probe(t, service.url)
const auth = { Authorization: service.account.headers.authorization }
const png = file(PNG, 'a.png', 'image/png')
const post = async (
  body: Buffer | string,
  status: number,
  what: string,
  type = FORM,
  headers: Record<string, string> = {}
) => {
  const request = requestWith(body, 'POST', '/assets', { ...auth, 'Content-Type': type, ...headers })
  return await probe.expect(request, status, what, 'POST')
}
const part = (...lines: string[]): Buffer =>
  Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`, 'latin1'),
    PNG,
    Buffer.from(`\r\n${END}`)
  ])
const DISPOSITION = 'Content-Disposition: form-data; name="asset[file]"; filename="a.png"'

t.test('a form with malformed framing leaves no file', async (t) => {
  const whole = form(png)
  const emptyPart = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n`
  type Case = [what: string, status: number, Buffer | string, type?: string, headers?: Record<string, string>]
  const table: Case[] = [
    ['no boundary', 400, whole, 'multipart/form-data'],
    ['a boundary of spaces', 400, whole, 'multipart/form-data; boundary="   "'],
    ['a boundary of 10,000 characters', 400, whole, `multipart/form-data; boundary=${'b'.repeat(10_000)}`],
    ['a boundary in capitals', 400, whole, `multipart/form-data; boundary=${BOUNDARY.toUpperCase()}`],
    ['LF instead of CRLF', 400, Buffer.from(whole.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')],
    ['no empty line after the headers of a part', 422, `--${BOUNDARY}\r\n${DISPOSITION}\r\n${END}`],
    [
      'one dash too few at the end',
      400,
      Buffer.from(whole.toString('latin1').slice(0, -3) + '\r\n', 'latin1')
    ],
    [
      'a form inside the form',
      422,
      form({
        disposition: 'form-data; name="files"',
        type: 'multipart/mixed; boundary=inner',
        content: `--inner\r\n${DISPOSITION}\r\n\r\nx\r\n--inner--\r\n`
      })
    ],
    ['no disposition', 422, part('Content-Type: image/png')],
    ['another disposition', 422, part(DISPOSITION.replace('form-data', 'attachment'))],
    ['a NUL as name', 422, part('Content-Disposition: form-data; name="\0"; filename="a.png"')],
    ['101 fields', 422, form(...Array.from({ length: 101 }, (_, n) => field(`f${n}`, 'x')), png)],
    ['10,000 empty parts', 422, `${emptyPart.repeat(10_000)}${END}`],
    ['an encoded body', 415, whole, FORM, { 'Content-Encoding': 'gzip' }],
    ['two content types', 415, whole, `application/json, ${FORM}`],
    ['only a preamble', 400, 'x'.repeat(50_000)],
    ['arbitrary bytes', 400, Buffer.from(Array.from({ length: 5000 }, (_, n) => (n * 7919) % 256))]
  ]
  const before = await stored(service.app)
  for (const [what, status, body, type, headers] of table) {
    await post(body, status, what, type, headers)
    t.same(await stored(service.app), before, `${what}: no file is left`)
  }
  t.equal(await service.app.database.asset.count(), 1)
  // These forms are unusual but unambiguous.
  await post(whole, 201, 'a boundary with a quote left open', `multipart/form-data; boundary="${BOUNDARY}`)
  await post(part(DISPOSITION, `X: ${'x'.repeat(20_000)}`), 201, '20 KB of headers after those of the file')
})
