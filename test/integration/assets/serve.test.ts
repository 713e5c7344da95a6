import { mkdir, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { execFileSync } from 'node:child_process'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { buildTestApp, listen, signUp } from '../../helpers/app.ts'
import { noise, pathOf, PDF, PNG, upload } from '../../helpers/assets.ts'
import { ask } from '../../helpers/client.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { onEachStore } from '../../helpers/stores.ts'

const app = await buildTestApp(t)
const account = await signUp(app)
const url = await listen(app)

const IMMUTABLE = 'public, max-age=31536000, immutable'
const nameOf = (asset: { url: string }) => pathOf(asset).slice('/uploads/'.length)

/** Asserts the headers that every response has, including errors. */
function assertGuarded (t: Test, headers: Record<string, unknown>, what: string): void {
  t.match(headers, {
    'access-control-allow-origin': '*',
    'access-control-expose-headers': /ETag/,
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
    'content-security-policy': /^default-src 'none'/,
    'x-request-id': /./
  }, what)
}

/**
 * Returns the validators of a file. Waits until the file is a second old, because storages that round times
 * up to seconds can return a different Last-Modified before.
 */
async function validators (
  app: FastifyInstance,
  asset: { url: string }
): Promise<{ etag: string, modified: string }> {
  for (;;) {
    const askedAt = Date.now()
    const { headers } = await app.inject(pathOf(asset))
    const modified = String(headers['last-modified'])
    if (Date.parse(modified) + 1000 <= askedAt) return { etag: String(headers.etag), modified }
    await sleep(50)
  }
}

onEachStore('a file can be read by anyone and cached as immutable', async (t, build) => {
  const app = await build(t)
  const asset = (await upload(app, await signUp(app), PNG)).json()
  for (const method of ['GET', 'HEAD'] as const) {
    const { statusCode, headers, rawPayload } = await app.inject({ method, url: pathOf(asset) })
    t.equal(statusCode, 200)
    t.ok(rawPayload.equals(method === 'GET' ? PNG : Buffer.alloc(0)))
    t.match(headers, {
      'content-length': `${PNG.length}`,
      'content-type': 'image/png',
      'content-disposition': 'inline',
      'cache-control': IMMUTABLE,
      'accept-ranges': 'bytes',
      etag: /^"[^"]+"$/,
      'last-modified': /GMT$/,
      'set-cookie': undefined,
      'content-security-policy': /sandbox$/
    }, method)
    assertGuarded(t, headers, method)
  }
})

t.test('only bitmap images and PDF files are served inline', async (t) => {
  const html = '<!DOCTYPE html><script>alert(1)</script>'
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
  const xml = '<?xml version="1.0"?>'
  const script = `${xml}<x:script xmlns:x="http://www.w3.org/1999/xhtml">alert(1)</x:script>`
  const unknown = 'application/octet-stream'
  const cases: [content: string | Buffer, claimed: string, contentType: string, inline: boolean][] = [
    [await asJpeg(card()), 'text/html', 'image/jpeg', true],
    [PDF, 'text/html', 'application/pdf', true],
    [html, 'text/html', unknown, false],
    [html, 'image/png', unknown, false],
    [html, 'application/pdf', unknown, false],
    [svg, 'image/svg+xml', 'image/svg+xml', false],
    [`${xml}${svg}`, 'image/svg+xml', 'image/svg+xml', false],
    [svg, 'image/png', 'image/svg+xml', false],
    ['a,b\n', 'text/csv', 'text/csv', false],
    [script, 'text/xml', unknown, false],
    ['alert(1)', 'text/javascript', unknown, false],
    ['body{}', 'text/css', unknown, false]
  ]
  for (const [content, claimed, contentType, inline] of cases) {
    const asset = (await upload(app, account, content, 'x.html', claimed)).json()
    const { headers } = await app.inject(pathOf(asset))
    const disposition = inline ? 'inline' : 'attachment; filename="x.html"; filename*=UTF-8\'\'x.html'
    t.match(headers, { 'content-type': contentType, 'content-disposition': disposition }, claimed)
    assertGuarded(t, headers, claimed)
    // Browsers do not start their PDF viewers in a sandbox.
    t.equal(/sandbox/.test(String(headers['content-security-policy'])), contentType !== 'application/pdf')
  }
})

t.test('a download keeps the name of the file, whatever it contains', async (t) => {
  const names: [sent: string, ascii: string, encoded: string][] = [
    ['price list.csv', 'price list.csv', 'price%20list.csv'],
    [
      'Preisübersicht 日本 😀.csv',
      'Preis_bersicht __ _.csv',
      'Preis%C3%BCbersicht%20%E6%97%A5%E6%9C%AC%20%F0%9F%98%80.csv'
    ],
    ["a%22b'(*);x=%41.csv", "a_b'(*);x=_41.csv", 'a%22b%27%28%2A%29%3Bx%3D%2541.csv'],
    [`${'ü'.repeat(300)}.csv`, `${'_'.repeat(125)}.csv`, `${'%C3%BC'.repeat(125)}.csv`]
  ]
  for (const [sent, ascii, encoded] of names) {
    const url = pathOf((await upload(app, account, 'a,b\n', sent, 'text/csv')).json())
    const disposition = `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
    for (const method of ['GET', 'HEAD'] as const) {
      const { headers } = await app.inject({ method, url })
      t.equal(headers['content-disposition'], disposition)
    }
    const part = await app.inject({ url, headers: { range: 'bytes=0-1' } })
    t.match(part, { statusCode: 206, headers: { 'content-disposition': disposition } })
  }
})

onEachStore('conditional requests get 304, 412 or the whole file', async (t, build) => {
  const app = await build(t)
  const asset = (await upload(app, await signUp(app), PNG)).json()
  const { etag, modified } = await validators(app, asset)
  const past = 'Mon, 01 Jan 2001 00:00:00 GMT'
  const cases: [headers: Record<string, string | undefined>, status: number][] = [
    [{ 'if-none-match': `"x", W/${etag}, "y"` }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': etag, 'cache-control': 'no-cache' }, 304],
    [{ 'if-none-match': '"x"', 'if-modified-since': modified }, 200],
    [{ 'if-none-match': etag, 'if-modified-since': past }, 304],
    [{ 'if-none-match': '' }, 200],
    [{ 'if-modified-since': modified }, 304],
    [{ 'if-modified-since': past }, 200],
    [{ 'if-modified-since': 'nonsense' }, 200],
    [{ 'if-match': etag }, 200],
    [{ 'if-match': '"x"' }, 412],
    [{ 'if-unmodified-since': past }, 412],
    [{ 'if-unmodified-since': 'Monday, 01-Jan-01 00:00:00 GMT' }, 412]
  ]
  for (const method of ['GET', 'HEAD'] as const) {
    for (const [headers, status] of cases) {
      const response = await app.inject({ method, url: pathOf(asset), headers })
      t.equal(response.statusCode, status, `${method} ${JSON.stringify(headers)}`)
      assertGuarded(t, response.headers, `${status}`)
      const expected = {
        200: { 'content-length': `${PNG.length}` },
        304: { etag, 'cache-control': IMMUTABLE, 'content-type': undefined, 'content-length': undefined },
        412: { etag }
      }
      t.match(response.headers, expected[status as 200], `${method} ${JSON.stringify(headers)}`)
    }
  }
})

onEachStore('a valid range gets 206, an unsatisfiable one 416, any other 200', async (t, build) => {
  const app = await build(t)
  const content = noise(1000)
  const asset = (await upload(app, await signUp(app), content)).json()
  const { etag, modified } = await validators(app, asset)
  const cases: [headers: Record<string, string | undefined>, from: number, to: number][] = [
    [{ range: 'bytes=0-0' }, 0, 0],
    [{ range: 'bytes=0-99' }, 0, 99],
    [{ range: 'bytes=900-' }, 900, 999],
    [{ range: 'bytes=990-5000' }, 990, 999],
    [{ range: 'bytes=-10' }, 990, 999],
    [{ range: 'bytes=0-99999999999999999999' }, 0, 999],
    [{ range: 'Bytes=0-9' }, 0, 9],
    [{ range: 'bytes=0-99', 'if-range': etag }, 0, 99],
    [{ range: 'bytes=0-99', 'if-range': modified }, 0, 99]
  ]
  for (const [headers, from, to] of cases) {
    const response = await app.inject({ url: pathOf(asset), headers })
    t.equal(response.statusCode, 206, JSON.stringify(headers))
    t.match(response.headers, {
      'content-range': `bytes ${from}-${to}/1000`,
      'content-length': `${to - from + 1}`,
      etag
    })
    t.ok(response.rawPayload.equals(content.subarray(from, to + 1)))
    assertGuarded(t, response.headers, '206')
  }
  for (const range of ['bytes=1000-', 'bytes=5000-6000', 'bytes=-0', 'bytes=99999999999999999999-']) {
    const response = await app.inject({ url: pathOf(asset), headers: { range } })
    t.equal(response.statusCode, 416, range)
    t.equal(response.headers['content-range'], 'bytes */1000')
    assertGuarded(t, response.headers, '416')
  }
  const whole: Record<string, string | undefined>[] = [
    { range: 'bytes=0-99', 'if-range': '"x"' },
    { range: 'bytes=0-99', 'if-range': `W/${etag}` },
    { range: 'bytes=0-99', 'if-range': 'Mon, 01 Jan 2001 00:00:00 GMT' },
    { range: 'bytes=0-99', 'if-range': 'nonsense' },
    { range: 'bytes=0-9,100-109' },
    { range: 'lines=0-9' },
    ...['bytes=9-1', 'bytes=2000-1000', 'bytes=-', 'bytes=0-x', 'bytes=x-y', 'bytes=0-0,0-0', '0-1', '']
      .map((range) => ({ range })),
    { range: 'bytes=-99999999999999999999' },
    { range: `bytes=${Array(1000).fill('0-').join(',')}` },
    { range: `bytes=${Array.from({ length: 500 }, (_, n) => `${n}-${n}`).join(', ')}` }
  ]
  for (const headers of whole) {
    const response = await app.inject({ url: pathOf(asset), headers })
    t.equal(response.statusCode, 200, JSON.stringify(headers))
    t.ok(response.rawPayload.equals(content))
  }
  const head = await app.inject({ method: 'HEAD', url: pathOf(asset), headers: { range: 'bytes=0-9' } })
  t.match(head, { statusCode: 200, headers: { 'content-length': '1000' } }, 'HEAD ignores Range')
})

async function plant (t: Test, app: FastifyInstance) {
  const folder = app.config.UPLOADS_DIR
  const names = {
    link: `${randomPublicId()}.png`,
    folder: randomPublicId(),
    fifo: randomPublicId(),
    dangling: randomPublicId(),
    temporary: randomPublicId()
  }
  await writeFile(join(folder, 'secret.txt'), 'SECRET')
  await writeFile(join(folder, '.env'), 'SECRET')
  await writeFile(join(folder, '.tmp', names.temporary), 'SECRET')
  await writeFile(join(folder, '..', `${names.temporary}.secret`), 'SECRET')
  t.teardown(async () => await unlink(join(folder, '..', `${names.temporary}.secret`)))
  await symlink('/etc/passwd', join(folder, names.link))
  await symlink('/nonexistent', join(folder, names.dangling))
  await mkdir(join(folder, names.folder))
  await writeFile(join(folder, names.folder, randomPublicId()), 'SECRET')
  execFileSync('mkfifo', [join(folder, names.fifo)])
  return names
}

t.test('the paths below /uploads/ serve only published files', async (t) => {
  const asset = (await upload(app, account, PNG)).json()
  const names = await plant(t, app)
  const name = nameOf(asset)
  const paths = [
    ...`. .. ./ ../ .tmp .tmp/ .tmp/${names.temporary} .tmp%2f${names.temporary}`.split(' '),
    ...`%2etmp/${names.temporary} .tmp%5c${names.temporary} x/../.tmp/${names.temporary}`.split(' '),
    ...`${names.folder}/ secret.txt .env %2eenv ../${names.temporary}.secret`.split(' '),
    ...`%2e%2e/${names.temporary}.secret ..%2f${names.temporary}.secret`.split(' '),
    ...`%2e%2e%2f${names.temporary}.secret ..%5c${names.temporary}.secret`.split(' '),
    ...`..\\${names.temporary}.secret %252e%252e%252f${names.temporary}.secret`.split(' '),
    ...`....//${names.temporary}.secret ..;/${names.temporary}.secret ../../../../etc/passwd`.split(' '),
    ...`..%2f..%2f..%2f..%2fetc%2fpasswd %c0%ae%c0%ae/etc/passwd /etc/passwd //etc/passwd`.split(' '),
    ...`%2fetc%2fpasswd /${name} ${name}/ ${name}%00 ${name}%00.png ${name}.png ${name}%20`.split(' '),
    ...`x/../${name} ./${name} %ff %zz % ${names.link} ${names.dangling} ${names.folder}`.split(' '),
    ...[names.fifo, '', `${name.slice(0, 22)}.html`, name.slice(0, 22), `${name.slice(0, 22)}.PNG`],
    ...[randomPublicId(), `${randomPublicId()}.png`, 'x'.repeat(5000)]
  ]
  for (const path of paths) {
    const { status, headers, body: bytes } = await ask(url, `/uploads/${path}`)
    const body = bytes.toString()
    t.ok(status === 404 || (status === 400 && /%(zz|ff|c0)?/.test(path)), `${path.slice(0, 60)}: ${status}`)
    if (status === 404) t.equal(body, '{"errors":["Not found"]}')
    t.notMatch(body, /SECRET|root:/)
    t.not(headers['cache-control'], IMMUTABLE)
    if (status === 404 && !path.startsWith('../')) assertGuarded(t, headers, path.slice(0, 40))
  }
  t.equal((await ask(url, `/uploads/${name}`)).status, 200)
  t.equal((await ask(url, `/uploads/${name}?v=2`)).status, 200)
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH'] as const) {
    t.equal((await app.inject({ method, url: pathOf(asset) })).statusCode, 405, method)
  }
})
