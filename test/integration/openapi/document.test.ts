import diagnostics from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectral from '@stoplight/spectral-core'
import rulesets from '@stoplight/spectral-rulesets'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { isPublic } from '../../../packages/client/src/transport.ts'
import { API_FILE, generateTypes, MAIL } from '../../../scripts/generate-client.ts'
import { VERSION } from '../../../src/infra/system/version.ts'
import { buildTestApp, NOBODY, sendAs, testSettings } from '../../helpers/app.ts'

// The OpenAPI document. helpers/conformance.js checks the responses of all tests against it.

interface Media {
  schema: object
  example?: unknown
}
interface Response {
  description: string
  headers?: Record<string, unknown>
  content?: Record<string, Media>
}
interface Operation {
  operationId: string
  summary: string
  tags: string[]
  security?: object[]
  parameters?: { name: string, in: string }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Response>
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  servers: object[]
  tags: { name: string }[]
  components: {
    schemas: Record<string, { examples?: unknown[] }>
    headers: Record<string, { schema: object, example: unknown }>
  }
}

/** The routes of the first app, written as `GET /assets/{id}`. */
const routes = new Set<string>()
const watch = (message: unknown) => {
  const { fastify } = message as { fastify: FastifyInstance }
  fastify.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) {
      routes.add(`${one} ${url.replace(/:(\w+)/g, '{$1}').replace('*', '{name}')}`)
    }
  })
}
diagnostics.subscribe('fastify.initialization', watch)
const settings = { ...MAIL, ...await testSettings(t) }
const app = await buildTestApp(t, settings)
diagnostics.unsubscribe('fastify.initialization', watch)
const document = (await app.inject('/openapi.json')).json<Document>()
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation }))
)
const operation = (id: string) => operations.find(({ operationId }) => operationId === id)!

t.test('/openapi.json is of OpenAPI 3.1, and names the server relative to itself', async (t) => {
  t.match(document, { openapi: '3.1.0', servers: [{ url: '.', description: 'this host' }] })
  const markers = /Default Response|"x-optional"|"x-response-description"|"def-\d/
  t.notMatch(JSON.stringify(document), markers, 'internal markers are removed')
})

t.test('Redocly finds nothing to mend in /openapi.json', async (t) => {
  // No id is `by-key`, because ids are UUIDs.
  const config = await createConfig({ extends: ['recommended'], rules: { 'no-ambiguous-paths': 'off' } })
  const problems = async (document: object) =>
    (await lintFromString({ source: JSON.stringify(document), config })).map(({ ruleId }) => ruleId)
  t.same(await problems(document), [])
  t.same(await problems({ ...document, security: undefined, servers: [] }), ['no-empty-servers'])
})

t.test('Spectral finds nothing to mend in /openapi.json', async (t) => {
  const linter = new spectral.Spectral()
  linter.setRuleset(new spectral.Ruleset({ extends: [[rulesets.oas, 'recommended']] } as never))
  // OpenAPI 3.1 allows scopes in every security scheme. Spectral knows only those of OAuth 2.
  const problems = async (document: object) =>
    (await linter.run(structuredClone(document) as Record<string, unknown>))
      .map(({ code, path }) => `${code}: ${path.join('.')}`)
      .filter((problem) => !/^oas3-operation-security-defined: .*\.apiKey\.\d$/.test(problem))
  t.same(await problems(document), [])
  t.same(await problems({ ...document, servers: [] }), ['oas3-api-servers: servers'])
})

t.test('each operation has a summary and one tag', async (t) => {
  const tags = document.tags.map(({ name }) => name)
  for (const { operationId, summary, tags: own } of operations) {
    t.match(summary, /^[A-Z].*[^.]$/, operationId)
    t.ok(own.length === 1 && tags.includes(own[0]!), `${operationId} has one of the tags`)
  }
})

t.test('every route is described, and every operation is a route', async (t) => {
  const known = new Set(operations.map(({ path, method }) => `${method} ${path}`))
  for (const route of routes) {
    // Every GET route answers HEAD, but the document describes HEAD only where it is useful.
    if (!/ \/(docs(\/|$)|console(\/|$)|account\/|client\.tgz$|$)/.test(route)) {
      t.ok(known.has(route) || known.has(route.replace(/^HEAD/, 'GET')), route)
    }
  }
  for (const route of known) t.ok(routes.has(route), route)
})

t.test('every write has a described body, except those that read none', async (t) => {
  const withoutBody = `
    redeliver replaceWebhookSecret requestEmailConfirmation restoreDeletedPage restoreRevision syncWebhook
    testWebhook unpublishLandingPage
  `
  const found = operations.filter(({ method, requestBody }) => /^P/.test(method) && requestBody === undefined)
  t.same(found.map(({ operationId }) => operationId).sort(), withoutBody.trim().split(/\s+/))
})

t.test('routes that need an access token or a key declare it with the scope, and describe their 401', async (t) => {
  for (const { operationId, path, method, security, responses, tags } of operations) {
    const { statusCode } = await app.inject({
      method: method as 'GET',
      url: path.replace(/\{\w+\}/, 'unknown'),
      headers: { 'content-type': 'application/json' }
    })
    const refused = statusCode === 401 && !/^\/auth\/(sign_in|refresh)/.test(path)
    const resource = tags[0] === 'Assets' ? 'assets'
      : method !== 'GET' && path.endsWith('/draft') ? 'drafts' : 'pages'
    const scope = `${resource}:${method === 'GET' ? 'read' : 'write'}`
    const apiKey = tags[0] === 'Assets' || tags[0] === 'Landing Pages' ? [{ apiKey: [scope] }] : []
    const optional = operationId === 'confirmEmail' ? [{}, { bearer: [] }] : []
    const accepted = tags[0] === 'Public' ? [{ previewLink: [] }] : [{ bearer: [] }, ...apiKey]
    t.same(security, refused ? accepted : optional, operationId)
    if (refused) t.ok(responses['401']?.headers?.['WWW-Authenticate'], operationId)
  }
})

t.test('the types of the client are up to date', async (t) => {
  t.ok(
    await generateTypes(app) === readFileSync(API_FILE, 'utf8'),
    'packages/client/src/api.ts is out of date: run "npm run generate:client" and commit it'
  )
})

t.test('the client sends the access token to exactly those routes that require one', async (t) => {
  for (const { path, method, security = [] } of operations) {
    if (method === 'OPTIONS') continue // only browsers send preflight requests
    const isOpen = !security.some((scheme) => 'bearer' in scheme)
    t.equal(isPublic(method, `${path.replaceAll(/\{\w+\}/g, 'x')}?limit=1`), isOpen, `${method} ${path}`)
  }
})

t.test('every example is valid for its schema', async (t) => {
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  ajv.addSchema({ $id: 'openapi', ...document })
  const fits = (pointer: string[], example: unknown) => {
    const parts = pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    const where = `openapi#/${parts.join('/')}`
    t.ok(ajv.compile({ $ref: where })(example), `${where}: ${JSON.stringify(example)}`)
  }
  for (const [name, { example }] of Object.entries(document.components.headers)) {
    fits(['components', 'headers', name, 'schema'], example)
  }
  for (const [name, { examples = [] }] of Object.entries(document.components.schemas)) {
    for (const example of examples) fits(['components', 'schemas', name], example)
  }
  for (const { path, method, operationId, requestBody, responses } of operations) {
    const base = ['paths', path, method.toLowerCase()]
    for (const [type, { example }] of Object.entries(requestBody?.content ?? {})) {
      if (type === 'application/json') fits([...base, 'requestBody', 'content', type, 'schema'], example)
    }
    for (const [status, { content = {} }] of Object.entries(responses)) {
      const { example } = content['application/json'] ?? {}
      if (Number(status) >= 400 && method !== 'HEAD') {
        t.match(example, { errors: [/^[A-Z].* .*[^.]$|^Not found$/] }, `${operationId} ${status}`)
      }
      const pointer = [...base, 'responses', status, 'content', 'application/json', 'schema']
      if (example !== undefined) fits(pointer, example)
    }
  }
})

t.test('the request examples work as written', async (t) => {
  const send = async (
    id: string,
    sender: typeof NOBODY,
    params: Record<string, string> = {},
    change = {}
  ) => {
    const { method, path, requestBody } = operation(id)
    const example = requestBody?.content['application/json']?.example as object | undefined
    const url = path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? '')
    return await sendAs(app, sender, method as 'GET', url, example && { ...example, ...change })
  }
  t.equal((await send('signUp', NOBODY)).statusCode, 201)
  const { refresh_token: token } = (await send('signIn', NOBODY)).json()
  const refreshed = (await send('refresh', NOBODY, {}, { refresh_token: token })).json()
  const sender = { headers: { authorization: `Bearer ${refreshed.access_token}` } }
  const { id, public_id: publicId } = (await send('createLandingPage', sender)).json()
  t.equal((await send('updateLandingPage', sender, { id })).statusCode, 200)
  const read = await send('readDocument', NOBODY, { public_id: publicId })
  t.same(read.json(), operation('readDocument').responses['200']?.content?.['application/json']?.example)
  const over = { refresh_token: refreshed.refresh_token }
  t.equal((await send('signOut', sender, {}, over)).statusCode, 204)
})

t.test('the document is compressed, cacheable, and readable by every origin', async (t) => {
  for (const path of ['/openapi.json', '/docs/json']) {
    const get = async (headers: Record<string, string>, method: 'GET' | 'HEAD' = 'GET') =>
      await sendAs(app, NOBODY, method, path, undefined, headers)
    const plain = await get({})
    const encodings = [
      ['identity', /^"[\w-]{43}"$/, (bytes: Buffer) => bytes],
      ['br', /^"[\w-]{43}-br"$/, brotliDecompressSync],
      ['gzip', /^"[\w-]{43}-gzip"$/, gunzipSync]
    ] as const
    for (const [encoding, etag, decode] of encodings) {
      const accept = { 'accept-encoding': encoding }
      const response = await get(accept)
      t.match(response.headers, {
        'content-type': 'application/json; charset=utf-8',
        'content-encoding': encoding === 'identity' ? undefined : encoding,
        etag,
        vary: 'Accept-Encoding',
        'access-control-allow-origin': '*',
        'cache-control': 'no-cache'
      }, path)
      const { rawPayload } = response
      t.ok(decode(rawPayload).equals(plain.rawPayload), path)
      const known = { ...accept, 'if-none-match': String(response.headers.etag) }
      for (const method of ['GET', 'HEAD'] as const) {
        t.match(await get(known, method), { statusCode: 304, body: '', headers: { vary: 'Accept-Encoding' } })
      }
      const { etag: tag, 'content-length': length } = response.headers
      t.match(await get(accept, 'HEAD'), { body: '', headers: { etag: tag, 'content-length': length } })
    }
  }
})

t.test('the files of the reference page are cacheable, and readable by every origin', async (t) => {
  const maxAges = { '/docs': 'no-cache', '/docs/static/swagger-ui.css': 'public, max-age=3600' }
  for (const [path, cacheControl] of Object.entries(maxAges)) {
    const { headers } = await app.inject(path)
    t.match(headers, { 'cache-control': cacheControl, 'access-control-allow-origin': '*' }, path)
  }
  t.equal((await app.inject('/docs/static/none.js')).statusCode, 404)
})

t.test('the package of the client needs no account and has an ETag', async (t) => {
  const { statusCode, headers, rawPayload } = await app.inject('/client.tgz')
  t.match([statusCode, headers], [200, {
    'content-type': 'application/gzip',
    'content-disposition': `attachment; filename="landfall-client-${VERSION}.tgz"`,
    'cache-control': 'no-cache',
    'content-encoding': undefined
  }])
  t.match(gunzipSync(rawPayload).toString(), `"version": "${VERSION}"`)
  const again = await app.inject({ url: '/client.tgz', headers: { 'if-none-match': String(headers.etag) } })
  t.match([again.statusCode, again.body], [304, ''])
})

t.test('/docs with a query leads to the page without it', async (t) => {
  const cases = [
    ['/docs/?x', './'],
    ['/docs?x=1', './docs'],
    ['/docs/static/index.html', '../'],
    ['/docs/static/index.html?x', '../']
  ] as const
  for (const [url, location] of cases) {
    t.match(await app.inject(url), { statusCode: 302, headers: { location } }, url)
  }
  for (const url of ['/docs', '/docs/']) t.match((await app.inject(url)).body, '<!DOCTYPE html>')
})
