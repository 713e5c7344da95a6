import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsync, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { NotFoundError } from '../errors.ts'
import { contentHash } from '../landing-pages/document.ts'
import { entityTag, isUnmodified } from '../landing-pages/etag.ts'
import { finishDocument, type OpenApiDocument } from '../openapi/finish.ts'
import { INFO, SECURITY_SCHEMES, TAGS } from '../openapi/info.ts'
import { sendNothing } from '../reply.ts'
import { answer, errors, nothing } from '../schemas.ts'

/** The page runs its own scripts and asks its own host, and nothing else. */
const PAGE_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** What makes the page fit a phone: narrower buttons, without the column that is always empty, and with a viewport. */
const NARROW_CSS = '.swagger-ui .response-col_links { display: none } .swagger-ui .btn.try-out__btn { padding-inline: 10px }'
const NARROW_SCRIPT = "document.head.append(Object.assign(document.createElement('meta'), { name: 'viewport', content: 'width=device-width, initial-scale=1' }))"

const documentSchema = {
  operationId: 'openapi',
  tags: ['Reference'],
  summary: 'Read this description of the service, in OpenAPI 3.1',
  headers: Type.Object({ 'if-none-match': Type.Optional(Type.String({ description: 'Answer 304 if the description still has one of these ETags' })) }),
  response: {
    200: answer(Type.Record(Type.String(), Type.Unknown()), 'The description', 'ETag'),
    304: nothing('The description has not changed', 'ETag'),
    ...errors([400])
  }
}

/** Collects the routes that are added from now on; those with a tag are described. */
export default fp(async (app) => {
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', info: INFO, tags: TAGS, components: { securitySchemes: SECURITY_SCHEMES } },
    hideUntagged: true,
    convertConstToEnum: false,
    transform: ({ schema, url }) => ({ schema, url: url.replace('*', ':name') }),
    transformObject: (collected) => finishDocument((collected as unknown as { openapiObject: OpenApiDocument }).openapiObject)
  })
}, { name: 'openapi' })

/**
 * `GET /openapi.json`, made from the routes' schemas at the first request and then the same bytes for all, and the page at
 * `/docs` that shows it.
 */
export const referenceRoutes: FastifyPluginAsync = async (app) => {
  let made: { readonly bytes: Buffer, readonly hash: string } | undefined
  function make () {
    const text = JSON.stringify({ ...app.swagger(), servers: [{ url: app.baseUrl() }] })
    return { bytes: Buffer.from(text), hash: contentHash(text) }
  }

  app.get('/openapi.json', { schema: documentSchema }, async (request, reply) => {
    const { bytes, hash } = made ??= make()
    reply.header('etag', entityTag(hash)).header('cache-control', 'no-cache')
    if (isUnmodified(request.headers['if-none-match'], hash)) return sendNothing(reply.code(304))
    return reply.type('application/json; charset=utf-8').send(bytes)
  })

  // The page's own copy of the document. The plugin would make it anew for each who asks, which takes 2 ms, and 30 as YAML.
  let forPage: Buffer | undefined
  const answerOnce: onRequestHookHandler = (request, reply, done) => {
    const { url } = request.routeOptions
    if (url === '/docs/yaml') return done(new NotFoundError())
    if (url !== '/docs/json') return done()
    // What is tried there goes to the host that the page came from, by whatever name it was reached.
    forPage ??= Buffer.from(JSON.stringify({ ...app.swagger(), servers: [{ url: '..', description: 'this host' }] }))
    reply.type('application/json; charset=utf-8').send(forPage)
  }

  await app.register(swaggerUi, {
    routePrefix: '/docs',
    theme: { title: INFO.title, css: [{ filename: 'narrow.css', content: NARROW_CSS }], js: [{ filename: 'narrow.js', content: NARROW_SCRIPT }] },
    staticCSP: PAGE_POLICY,
    uiHooks: { onRequest: answerOnce },
    uiConfig: { layout: 'BaseLayout', deepLinking: true, displayOperationId: true, displayRequestDuration: true, docExpansion: 'list', tryItOutEnabled: true, persistAuthorization: false }
  })
}
