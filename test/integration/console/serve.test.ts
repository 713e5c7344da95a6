import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { loadConfig } from '../../../src/config.ts'
import { contentHash } from '../../../src/http/conditional-requests.ts'
import clientAddress from '../../../src/http/client-address.ts'
import accessLog from '../../../src/http/access-log.ts'
import errorHandler from '../../../src/http/error-handler.ts'
import routeLookup, { notFound } from '../../../src/http/route-lookup.ts'
import securityHeaders, { secureResponses } from '../../../src/http/common-headers.ts'
import { consoleRoutes } from '../../../src/modules/console/index.ts'
import { buildTestApp } from '../../helpers/app.ts'

// How the service serves the console. Most tests use a small folder instead of the built console.

const FILES = {
  'index.html': '<!doctype html><script type="module" src="assets/main-a1b2c3.js"></script>',
  'assets/main-a1b2c3.js': `console.log("${'x'.repeat(500)}")`,
  'assets/main-d4e5f6.css': ':root { color-scheme: light dark }',
  'assets/logo-0a1b2c.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>'
} as const
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8'

/** Writes files, each with its Brotli-compressed copy. Returns their folder. */
function folderWith (t: Test, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'landfall-console-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
    writeFileSync(join(folder, `${name}.br`), brotliCompressSync(content))
  }
  return folder
}

/** Builds an app that has only the routes of the console. */
async function consoleApp (
  t: Test,
  settings: Record<string, string> = {},
  folder = folderWith(t, FILES)
): Promise<FastifyInstance> {
  const app = Fastify()
  t.teardown(async () => await app.close())
  const config = loadConfig({ BASE_URL: 'https://pages.example.com/x', ...settings })
  app.decorate('config', config)
  app.decorate('baseUrl', () => config.BASE_URL ?? 'http://localhost:3000')
  for (const plugin of [securityHeaders, routeLookup, errorHandler, clientAddress, accessLog]) {
    await app.register(plugin)
  }
  secureResponses(app)
  await app.register(notFound)
  await app.register(consoleRoutes, { folder })
  return app
}

t.test('the page is revalidated by its ETag, and may load only its own files', async (t) => {
  const app = await consoleApp(t, { UPLOADS_PUBLIC_URL: 'https://cdn.example.com/files' })
  const page = await app.inject('/console/')
  t.equal(page.statusCode, 200)
  t.equal(page.body, FILES['index.html'])
  t.match(page.headers, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    etag: `"${contentHash(FILES['index.html'])}"`,
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
  const app = await consoleApp(t)
  const types = {
    'assets/main-a1b2c3.js': 'text/javascript; charset=utf-8',
    'assets/main-d4e5f6.css': 'text/css; charset=utf-8',
    'assets/logo-0a1b2c.svg': 'image/svg+xml'
  }
  for (const [name, type] of Object.entries(types)) {
    const file = await app.inject(`/console/${name}`)
    t.equal(file.body, FILES[name as keyof typeof FILES])
    t.match(file.headers, {
      'content-type': type,
      'cache-control': 'public, max-age=31536000, immutable',
      'content-security-policy': "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
    })
  }
})

t.test('clients that accept Brotli get the bytes that the build compressed, with an ETag of their own', async (t) => {
  const app = await consoleApp(t)
  const get = async (headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
    await app.inject({ method, url: '/console/assets/main-a1b2c3.js', headers })
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
  const app = await consoleApp(t)
  const paths = [
    ...'index.html assets assets/ assets/main-a1b2c3.js.br ../package.json assets/%00'.split(' '),
    ...'%2e%2e/package.json ..%2fpackage.json assets/none.js __proto__ constructor'.split(' ')
  ]
  for (const path of paths) t.equal((await app.inject(`/console/${path}`)).statusCode, 404, path)
})

t.test('/console and browsers at / are led to the console, also below a path', async (t) => {
  const app = await consoleApp(t)
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
  const first = await (await consoleApp(t)).inject('/console/settings.json')
  t.match(first.headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-cache' })
  t.same(first.json(), {
    version: contentHash(FILES['index.html']),
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
  const app = await consoleApp(t, {
    SIGN_UP: 'closed',
    SMTP_URL: 'smtp://mail.example.com',
    MAIL_FROM: 'noreply@example.com',
    REQUIRE_CONFIRMED_EMAIL: 'true',
    MAX_DOCUMENT_BYTES: '1000',
    MAX_UPLOAD_BYTES: '2000',
    PREVIEW_URL: 'https://www.example.com/{public_id}',
    WEBHOOKS: 'false'
  })
  const headers = { 'if-none-match': String(first.headers.etag) }
  const other = await app.inject({ url: '/console/settings.json', headers })
  t.match(other.json(), {
    sign_up: 'closed',
    sends_mail: true,
    requires_confirmed_email: true,
    max_document_bytes: 1000,
    max_upload_bytes: 2000,
    trash_days: 30,
    preview_url: 'https://www.example.com/{public_id}',
    has_webhooks: false
  })
  const again = { url: '/console/settings.json', headers: { 'if-none-match': String(other.headers.etag) } }
  t.equal((await app.inject(again)).statusCode, 304)
})

t.test('other methods get 405 with the ones that there are', async (t) => {
  const app = await consoleApp(t)
  for (const url of ['/console', '/console/', '/console/settings.json', '/console/assets/main-a1b2c3.js']) {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'] as const) {
      const response = await app.inject({ method, url })
      t.match(response, { statusCode: 405, headers: { allow: 'GET, HEAD' } }, `${method} ${url}`)
    }
  }
})

t.test('while the console is not built, its addresses say how to build it', async (t) => {
  const app = await consoleApp(t, {}, folderWith(t, { 'assets/main.js': '' }))
  const errors = ['The console is not built; run "npm run build", then start the service again']
  for (const url of ['/console/', '/console/settings.json', '/console/assets/main.js']) {
    const response = await app.inject(url)
    t.equal(response.statusCode, 404)
    t.same(response.json(), { errors })
  }
})

t.test('the service has the console, and CONSOLE=false turns it off', async (t) => {
  const accept = { accept: BROWSER }
  const on = await buildTestApp(t)
  t.match(await on.inject('/console'), { statusCode: 302, headers: { location: './console/' } })
  t.equal((await on.inject({ url: '/', headers: accept })).statusCode, 302)
  const off = await buildTestApp(t, { CONSOLE: 'false' })
  for (const url of ['/', '/console', '/console/', '/console/settings.json', '/console/assets/x.js']) {
    const response = await off.inject({ url, headers: accept })
    t.equal(response.statusCode, 404, url)
    t.equal(response.headers.vary, undefined, url)
    const sentence = url === '/' ? 'There is no page here; the API is described at http://landfall.test/docs'
      : 'Not found'
    t.same(response.json(), { errors: [sentence] }, url)
  }
})
