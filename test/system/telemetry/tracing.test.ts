import { once } from 'node:events'
import { createServer, request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../../src/app.ts'
import { loadConfig } from '../../../src/config.ts'
import { buildTestApp, createPage, signUp, testSettings } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { claimRedis, listen, startPostgresServer } from '../../helpers/servers.ts'
import { startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Tests the traces that a collector gets, with a receiver for OTLP over HTTP in JSON.

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 2: server, 3: client. */
  readonly kind: number
  readonly status?: { readonly code?: number }
  readonly attributes: { readonly key: string, readonly value: Record<string, unknown> }[]
}

const SERVER = 2
const CLIENT = 3
/** Status of a failed span. */
const FAILED = 2
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
/** Sends spans soon, so that the tests don't wait. */
const SOON = { OTEL_BSP_SCHEDULE_DELAY: '50' }
Object.assign(process.env, SOON)
const jsonTo = (url: string) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json'
})

const attributesOf = ({ attributes }: Pick<Span, 'attributes'>): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]))

/** A collector. While it `hangs`, it keeps the spans but answers nothing. */
async function startCollector (t: Test) {
  const state = { hangs: false }
  const spans: Span[] = []
  const requests: { readonly path: string, readonly headers: IncomingHttpHeaders }[] = []
  /** Resource attributes of the spans. */
  const resources: Record<string, unknown>[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      requests.push({ path: request.url ?? '', headers: request.headers })
      if (request.headers['content-type'] === 'application/json') {
        const { resourceSpans } = JSON.parse(Buffer.concat(chunks).toString()) as {
          resourceSpans: { resource: Span, scopeSpans: { spans: Span[] }[] }[]
        }
        for (const { resource, scopeSpans } of resourceSpans) {
          resources.push(attributesOf(resource))
          spans.push(...scopeSpans.flatMap(({ spans }) => spans))
        }
      }
      if (state.hangs) return
      response.writeHead(200, { 'content-type': request.headers['content-type'] })
        .end(request.headers['content-type'] === 'application/json' ? '{}' : '')
    })
  })
  return { url: `http://127.0.0.1:${await listen(t, server)}`, spans, requests, resources, state }
}

async function startTraced (t: Test, settings: Record<string, string>): Promise<Service> {
  return await startService(t, {
    ...await testSettings(t),
    LOG_LEVEL: 'info',
    REDIS_URL: await claimRedis(t),
    ...SOON,
    ...settings
  })
}

// The first test, because the others load the SDK into this process.
t.test('without OTEL_EXPORTER_OTLP_ENDPOINT no OpenTelemetry SDK is loaded', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  await createPage(app, account)
  t.equal(app.tracer, undefined)
  // prom-client depends on the API, which does nothing without the SDK.
  t.same(
    Object.keys(createRequire(import.meta.url).cache).filter((path) =>
      /@opentelemetry[\\/](?!api[\\/])/.test(path)
    ),
    []
  )
})

t.test('a request is one trace with its statements, and its log line has the trace id', async (t) => {
  const collector = await startCollector(t)
  const service = await startTraced(t, {
    ...jsonTo(`${collector.url}/`),
    OTEL_EXPORTER_OTLP_HEADERS: 'x-api-key=open%20sesame,x-other=2',
    OTEL_EXPORTER_OTLP_TIMEOUT: '600000',
    OTEL_BSP_EXPORT_TIMEOUT: '600000',
    OTEL_SERVICE_NAME: 'landfall-test',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=staging'
  })
  const owner = await Owner.signUp(service.url)
  const page = await owner.createPage(service.url, '{"secret":"of the document"}')
  await owner.call('GET', `${service.url}/manage/landing_pages?token=hidden`)

  // The body arrives later, in an event of the connection.
  const patch = request(`${service.url}/manage/landing_pages/${page.id}`, {
    method: 'PATCH',
    headers: {
      authorization: `Bearer ${owner.accessToken}`,
      'content-type': 'application/json',
      traceparent: `00-${TRACE}-${PARENT}-01`,
      'x-request-id': 'the-request'
    }
  })
  const answered = once(patch, 'response')
  patch.flushHeaders()
  await until(() =>
    collector.spans.some(({ name, traceId }) => traceId === TRACE && name === 'SELECT sessions')
  )
  patch.end('{"current_data":{"a":1}}')
  const [answer] = await answered as [IncomingMessage]
  t.equal(answer.resume().statusCode, 200)
  const server = await until(() =>
    collector.spans.find(({ traceId, kind }) => traceId === TRACE && kind === SERVER)
  )
  t.equal(server.parentSpanId, PARENT, "the client's trace is continued")
  t.equal(server.name, 'PATCH /manage/landing_pages/:id')
  t.match(attributesOf(server), {
    'http.request.method': 'PATCH',
    'http.route': '/manage/landing_pages/:id',
    'http.response.status_code': 200,
    'landfall.request_id': 'the-request',
    'client.address': /127\.0\.0\.1|::1/
  })
  const children = await until(() => {
    const found = collector.spans.filter(({ parentSpanId }) => parentSpanId === server.spanId)
    return found.some(({ name }) => name === 'UPDATE landing_pages') &&
      found.some(({ name }) => name === 'redis') && found
  })
  t.ok(children.every(({ kind, traceId }) => kind === CLIENT && traceId === TRACE))
  t.ok(
    children.some(({ name }) => name === 'SELECT sessions'),
    'the session is checked before the body has arrived'
  )
  t.match(attributesOf(children.find(({ name }) => name === 'UPDATE landing_pages') as Span), {
    'db.system.name': 'postgresql',
    'db.query.text': /\$1[^]*UPDATE landing_pages/
  })

  const line = await until(() =>
    service.output().split('\n').find((line) => line.includes('"the-request"') && line.includes('"answered"'))
  )
  t.equal(JSON.parse(line).trace_id, TRACE)

  t.match(collector.resources[0], {
    'service.name': 'landfall-test',
    'deployment.environment.name': 'staging'
  })
  t.equal(collector.requests[0]?.path, '/v1/traces')
  t.match(collector.requests[0]?.headers, { 'x-api-key': 'open sesame', 'x-other': '2' })
  const all = JSON.stringify(collector.spans)
  for (const secret of ['of the document', 'hidden', owner.accessToken, owner.email]) {
    t.notOk(all.includes(secret), secret)
  }

  // Loading a document has a span, a read from memory has none.
  const unknown = 'A'.repeat(22)
  for (const id of [unknown, page.public_id, page.public_id]) {
    await call('GET', `${service.url}/landing_pages/${id}`)
  }
  const load = await until(() => collector.spans.find(({ name }) => name === 'GET /landing_pages/:public_id'))
  t.match(attributesOf(load), { 'http.response.status_code': 404 })
  await until(() =>
    collector.spans.some(({ name, parentSpanId }) =>
      name === 'SELECT landing_pages' && parentSpanId === load.spanId
    )
  )
  await owner.call('GET', `${service.url}/assets`)
  await until(() => collector.spans.some(({ name }) => name === 'GET /assets'), 'the earlier spans are sent')
  t.equal(collector.spans.filter(({ name }) => name === 'GET /landing_pages/:public_id').length, 1)

  // A hanging collector delays neither requests nor the shutdown.
  collector.state.hangs = true
  const sent = collector.requests.length
  t.equal(await owner.accessStatus(service.url), 200)
  await until(() => collector.requests.length > sent)
  t.equal(await owner.accessStatus(service.url), 200)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('the settings decide what is sampled, and whether the client may decide', async (t) => {
  const collector = await startCollector(t)
  const app = await buildTestApp(t, {
    ...jsonTo(collector.url),
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0'
  })
  const { headers } = await signUp(app)
  await app.inject({ url: '/auth/me', headers: { ...headers, traceparent: `00-${TRACE}-${PARENT}-00` } })
  await app.inject({ url: '/assets', headers: { ...headers, traceparent: `00-${TRACE}-${PARENT}-01` } })
  await app.close()
  t.same(
    new Set(collector.spans.map(({ traceId }) => traceId)),
    new Set([TRACE]),
    'the remaining spans are sent at shutdown'
  )
  t.same(collector.spans.filter(({ kind }) => kind === SERVER).map(({ name }) => name), ['GET /assets'])
})

t.test("the span of a failed request has the error's code and not its message", async (t) => {
  const collector = await startCollector(t)
  const postgres = await startPostgresServer(t)
  const app = await buildTestApp(t, {
    DATABASE_URL: postgres.url,
    UPLOADS_DIR: temporaryFolder(t),
    ...jsonTo(collector.url)
  })
  const { headers } = await signUp(app)
  const taken = {
    email: 'taken@example.com',
    password: 'correct horse',
    password_confirmation: 'correct horse'
  }
  await Promise
    .all([1, 2].map(async () =>
      await app.inject({ method: 'POST', url: '/auth/sign_up', payload: { user: taken } })
    ))
  await postgres.stop()
  t.equal((await app.inject({ url: '/auth/me', headers })).statusCode, 503)
  await app.close()
  const failed = collector.spans.find(({ name }) => name === 'GET /auth/me') as Span
  t.equal(failed.status?.code, FAILED)
  t.equal(
    collector.spans.find(({ parentSpanId, status }) =>
      parentSpanId === failed.spanId && status?.code === FAILED
    )?.name,
    'CONNECT'
  )
  t.notOk(JSON.stringify(collector.spans).includes('taken@example.com'))
})

t.test('spans are sent as protobuf by default', async (t) => {
  const collector = await startCollector(t)
  const app = await buildTestApp(t, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
  await signUp(app)
  await app.close()
  t.equal(collector.requests[0]?.headers['content-type'], 'application/x-protobuf')
})

t.test('an unreachable collector is logged once and delays no request', async (t) => {
  // The SDK reads this limit of its retries from the environment.
  process.env.OTEL_EXPORTER_OTLP_TIMEOUT = '300'
  t.teardown(() => {
    delete process.env.OTEL_EXPORTER_OTLP_TIMEOUT
  })
  const warnings: string[] = []
  const app = await buildApp(
    loadConfig({ ...await testSettings(t), ...jsonTo('http://127.0.0.1:1'), LOG_LEVEL: 'warn' }),
    pino({ level: 'warn' }, {
      write: (line) => {
        warnings.push(line)
      }
    })
  )
  t.teardown(async () => await app.close())
  await signUp(app)
  await app.close()
  t.equal(warnings.filter((line) => line.includes('traces could not be sent')).length, 1)
})
