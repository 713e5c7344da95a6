import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import t from 'tap'
import { contentHash } from '../../../src/http/conditional-requests.ts'
import { buildTestApp } from '../../helpers/app.ts'
import { PROJECT } from '../../helpers/service.ts'

// How the service serves the console that was built.

const FOLDER = join(PROJECT, 'dist/console')
const PAGE = readFileSync(join(FOLDER, 'index.html'))
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8'

const app = await buildTestApp(t, {
  BASE_URL: 'https://pages.example.com/x',
  UPLOADS_PUBLIC_URL: 'https://cdn.example.com/files'
})
const names = readdirSync(join(FOLDER, 'assets')).filter((name) => !name.endsWith('.br'))
const script = `/console/assets/${names.find((name) => name.endsWith('.js'))}`

t.test('the page is revalidated by its ETag, and may load only its own files', async (t) => {
  const page = await app.inject('/console/')
  t.equal(page.statusCode, 200)
  t.equal(page.body, PAGE.toString())
  t.match(page.headers, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    etag: `"${contentHash(PAGE)}"`,
    vary: 'Accept-Encoding',
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data: " +
      "https://pages.example.com https://cdn.example.com; connect-src 'self'; base-uri 'none'; " +
      "form-action 'none'; frame-ancestors 'none'",
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'strict-transport-security': 'max-age=31536000'
  })
  const again = await app.inject({ url: '/console/', headers: { 'if-none-match': page.headers.etag } })
  t.match(again, { statusCode: 304, body: '', headers: { etag: page.headers.etag, vary: 'Accept-Encoding' } })
  const stale = await app.inject({ url: '/console/', headers: { 'if-match': '"old"' } })
  t.match(stale, { statusCode: 412, headers: { etag: page.headers.etag } })
})

t.test('files with hashed names are immutable, and each has its content type', async (t) => {
  const types: Record<string, string> = {
    js: 'text/javascript; charset=utf-8',
    css: 'text/css; charset=utf-8',
    svg: 'image/svg+xml'
  }
  for (const name of names) {
    const file = await app.inject(`/console/assets/${name}`)
    t.ok(file.rawPayload.equals(readFileSync(join(FOLDER, 'assets', name))), name)
    t.match(file.headers, {
      'content-type': types[name.split('.').at(-1) ?? ''],
      'cache-control': 'public, max-age=31536000, immutable',
      'content-security-policy': "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
    }, name)
  }
})

t.test('clients that accept Brotli get the bytes that the build compressed, with an ETag of their own', async (t) => {
  const get = async (headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
    await app.inject({ method, url: script, headers })
  const plain = await get()
  const small = await get({ 'accept-encoding': 'gzip, br' })
  t.match(small.headers, { 'content-encoding': 'br', 'content-length': String(small.rawPayload.length) })
  t.equal(brotliDecompressSync(small.rawPayload).toString(), plain.body)
  t.not(small.headers.etag, plain.headers.etag)
  t.equal((await get({ 'accept-encoding': 'gzip' })).headers['content-encoding'], undefined)

  const head = await get({ 'accept-encoding': 'br' }, 'HEAD')
  t.equal(head.body, '')
  for (const name of 'etag content-length content-encoding content-type cache-control vary'.split(' ')) {
    t.equal(head.headers[name], small.headers[name], name)
  }
  const tag = String(small.headers.etag)
  t.equal((await get({ 'accept-encoding': 'br', 'if-none-match': tag })).statusCode, 304)
  t.equal((await get({ 'if-none-match': tag })).statusCode, 200, 'the tag of another encoding')
})

t.test('only files of the folder are served', async (t) => {
  const paths = [
    ...`index.html assets assets/ ${names[0]} assets/${names[0]}.br ../package.json assets/%00`.split(' '),
    ...'%2e%2e/package.json ..%2fpackage.json assets/none.js __proto__ constructor'.split(' ')
  ]
  for (const path of paths) t.equal((await app.inject(`/console/${path}`)).statusCode, 404, path)
})

t.test('/console and browsers at / are led to the console, also below a path', async (t) => {
  for (const url of ['/console', '/console?x=1', '/']) {
    const response = await app.inject({ url, headers: { accept: BROWSER } })
    const headers = { location: './console/', 'cache-control': 'no-store' }
    t.match(response, { statusCode: 302, headers }, url)
  }
  t.equal((await app.inject({ url: '/', headers: { accept: BROWSER } })).headers.vary, 'Accept')
  const others = [
    ...[undefined, '*/*', 'application/json', 'application/json, text/html', 'text/html;q=0'],
    ...['text/html;q=0.5, application/*', 'x'.repeat(5000)]
  ]
  const errors = ['There is no page here; the API is described at https://pages.example.com/x/docs']
  for (const accept of others) {
    const response = await app.inject({ url: '/', ...accept !== undefined && { headers: { accept } } })
    t.match(response, { statusCode: 404, headers: { vary: 'Accept' } }, String(accept))
    t.same(response.json(), { errors })
  }
})

t.test('/console/settings.json says what the console has to know', async (t) => {
  const first = await app.inject('/console/settings.json')
  t.match(first.headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-cache' })
  t.same(first.json(), {
    version: contentHash(PAGE),
    base_url: 'https://pages.example.com/x',
    sign_up: 'open',
    sends_mail: false,
    requires_confirmed_email: false,
    max_document_bytes: 1_048_576,
    max_upload_bytes: 26_214_400,
    trash_days: 30,
    preview_url: null,
    has_webhooks: true
  })
  const other = await buildTestApp(t, {
    SIGN_UP: 'closed',
    SMTP_URL: 'smtp://127.0.0.1:1',
    MAIL_FROM: 'noreply@example.com',
    REQUIRE_CONFIRMED_EMAIL: 'true',
    MAX_DOCUMENT_BYTES: '1000',
    MAX_UPLOAD_BYTES: '2000',
    PREVIEW_URL: 'https://www.example.com/{public_id}',
    WEBHOOKS: 'false'
  })
  const known = async (headers: typeof first.headers) =>
    await other.inject({ url: '/console/settings.json', headers: { 'if-none-match': String(headers.etag) } })
  const changed = await known(first.headers)
  t.match(changed.json(), {
    sign_up: 'closed',
    sends_mail: true,
    requires_confirmed_email: true,
    max_document_bytes: 1000,
    max_upload_bytes: 2000,
    preview_url: 'https://www.example.com/{public_id}',
    has_webhooks: false
  })
  t.equal((await known(changed.headers)).statusCode, 304)
})

t.test('other methods get 405 with the ones that there are', async (t) => {
  for (const url of ['/console', '/console/', '/console/settings.json', script]) {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'] as const) {
      const response = await app.inject({ method, url })
      t.match(response, { statusCode: 405, headers: { allow: 'GET, HEAD' } }, `${method} ${url}`)
    }
  }
})

t.test('CONSOLE=false turns the console off', async (t) => {
  const off = await buildTestApp(t, { CONSOLE: 'false' })
  for (const url of ['/', '/console', '/console/', '/console/settings.json', script]) {
    const response = await off.inject({ url, headers: { accept: BROWSER } })
    t.equal(response.statusCode, 404, url)
    t.equal(response.headers.vary, undefined, url)
    const sentence = url === '/' ? 'There is no page here; the API is described at http://landfall.test/docs'
      : 'Not found'
    t.same(response.json(), { errors: [sentence] }, url)
  }
})
