import { existsSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { Type, type TObject } from '@sinclair/typebox'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, FastifySchema,
  onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { NotFoundError } from '../../errors.ts'
import { VERSION } from '../../infra/system/version.ts'
import { readBuiltFile, sendBuiltFile } from '../built-files.ts'
import { JSON_CONTENT_TYPE } from '../common-headers.ts'
import { compress, entityTag, preferredEncoding } from '../content-encoding.ts'
import { contentHash, hasMatchingTag } from '../conditional-requests.ts'
import { finishDocument, type OpenApiDocument } from './finish.ts'
import { INFO, SECURITY_SCHEMES, TAGS } from './info.ts'
import { sendWithoutBody } from '../responses.ts'
import { response, errors, nothing } from '../schemas.ts'

/** Where the build puts the packed client. Both src/ and dist/ are three folders above this file. */
const CLIENT_PACKAGE = fileURLToPath(new URL('../../../dist/client.tgz', import.meta.url))

/** The reference page may load scripts, styles and data only from its own host. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Adapt the page to phones: narrower buttons, no empty column, and a viewport. */
const NARROW_CSS =
  '.swagger-ui .response-col_links { display: none } .swagger-ui .btn.try-out__btn { padding-inline: 10px }'
const NARROW_SCRIPT =
  "document.head.append(Object.assign(document.createElement('meta'), { name: 'viewport', content: " +
  "'width=device-width, initial-scale=1' }))"

const COMPRESSIBLE = /^(text|application)\/(html|css|json|javascript)/

const CORS = ['Access-Control-Allow-Origin', 'Access-Control-Expose-Headers'] as const
const HEADERS = [...CORS, 'ETag', 'Vary'] as const

const documentSchema = {
  operationId: 'openapi',
  tags: ['Reference'],
  summary: 'Read this API description (OpenAPI 3.1)',
  description: 'The same description as on the page `/docs`.',
  headers: Type.Object({
    'if-none-match': Type
      .Optional(Type.String({ description: 'Respond with 304 if the current ETag is in this list' }))
  }),
  response: {
    200: response(
      Type.Record(Type.String(), Type.Unknown()),
      'The API description',
      ...HEADERS,
      'Content-Encoding?'
    ),
    304: nothing('The API description has not changed', ...HEADERS),
    ...errors([400], CORS)
  }
}

/** Collects the routes that are registered after this plugin. Routes without a tag are omitted. */
export default fp(async (app) => {
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', info: INFO, tags: TAGS, components: { securitySchemes: SECURITY_SCHEMES } },
    hideUntagged: true,
    convertConstToEnum: false,
    transform: ({ schema, url }) => ({ schema: nameWildcard(schema), url: url.replace('*', ':name') }),
    transformObject: (collected) =>
      finishDocument((collected as unknown as { openapiObject: OpenApiDocument }).openapiObject)
  })
}, { name: 'openapi' })

/** Renames the parameter `*` to `name`, as OpenAPI has no wildcards. */
function nameWildcard (schema: FastifySchema): FastifySchema {
  const { '*': name } = (schema?.params as TObject | undefined)?.properties ?? {}
  return name === undefined ? schema : { ...schema, params: Type.Object({ name }) }
}

/** `GET /openapi.json`, generated at the first request, the page `/docs`, and the package of the client. */
export const referenceRoutes: FastifyPluginAsync = async (app) => {
  // Public and without secrets: pages of any origin may read them, and all caches may keep them.
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers({
      'access-control-allow-origin': '*',
      'access-control-expose-headers': 'ETag, X-Request-Id',
      'cross-origin-resource-policy': 'cross-origin',
      'cache-control': 'no-cache'
    })
  })
  app.addHook('onSend', async ({ routeOptions }, reply) => {
    // For an hour only: an upgrade changes these files, but not their names.
    if (reply.statusCode < 400 && routeOptions.url?.startsWith('/docs/static/') === true) {
      reply.header('cache-control', 'public, max-age=3600')
    }
  })
  compressResponses(app)

  const documents = new Map<string, { readonly bytes: Buffer, readonly hash: string }>()
  /** Sends the document. The server is relative to its URL, so that it also holds behind a proxy. */
  function sendDocument (request: FastifyRequest, reply: FastifyReply, server: string): FastifyReply {
    let document = documents.get(server)
    if (document === undefined) {
      const text = JSON.stringify({ ...app.swagger(), servers: [{ url: server, description: 'this host' }] })
      document = { bytes: Buffer.from(text), hash: contentHash(text) }
      documents.set(server, document)
    }
    const { 'accept-encoding': acceptEncoding, 'if-none-match': ifNoneMatch } = request.headers
    const etag = entityTag(document.hash, preferredEncoding(acceptEncoding))
    reply.header('etag', etag)
    if (ifNoneMatch !== undefined && hasMatchingTag(ifNoneMatch, etag, 'weak')) {
      return sendWithoutBody(reply.code(304))
    }
    return reply.type(JSON_CONTENT_TYPE).send(document.bytes)
  }

  app.get(
    '/openapi.json',
    { schema: documentSchema, config: { anyOrigin: true } },
    (request, reply) => sendDocument(request, reply, '.')
  )

  if (existsSync(CLIENT_PACKAGE)) {
    const file = readBuiltFile(CLIENT_PACKAGE)
    app.get('/client.tgz', (request, reply) => {
      reply.header('content-disposition', `attachment; filename="landfall-client-${VERSION}.tgz"`)
      sendBuiltFile(request, reply, file)
    })
  } else app.log.warn('/client.tgz is missing; "npm run build" packs the client')

  // @fastify/swagger-ui would generate the document for every request, in 2 ms, or in 30 ms as YAML.
  const respondOnce: onRequestHookHandler = (request, reply, done) => {
    const { url } = request.routeOptions
    if (url === '/docs/yaml') return done(new NotFoundError())
    // With a query, @fastify/swagger-ui would write wrong URLs into the page.
    const [path = '', query] = request.url.split('?')
    if (query !== undefined && /^\/docs\/?$/.test(path)) {
      reply.redirect(path.endsWith('/') ? './' : './docs')
      return
    }
    if (path === '/docs/static/index.html') {
      reply.redirect('../')
      return
    }
    if (url !== '/docs/json') return done()
    sendDocument(request, reply, '..')
  }

  await app.register(swaggerUi, {
    routePrefix: '/docs',
    theme: {
      title: INFO.title,
      css: [{ filename: 'narrow.css', content: NARROW_CSS }],
      js: [{ filename: 'narrow.js', content: NARROW_SCRIPT }]
    },
    staticCSP: PAGE_POLICY,
    uiHooks: { onRequest: respondOnce },
    uiConfig: {
      layout: 'BaseLayout',
      deepLinking: true,
      displayOperationId: true,
      displayRequestDuration: true,
      docExpansion: 'list',
      tryItOutEnabled: true,
      persistAuthorization: false
    }
  })
}

/**
 * Adds a hook that compresses the responses of a scope that have an ETag. Results are kept by URL and
 * ETag.
 */
function compressResponses (scope: FastifyInstance): void {
  const kept = new Map<string, Promise<Buffer>>()
  scope.addHook('onSend', async (request, reply, payload) => {
    const { etag, 'content-type': type } = reply.getHeaders()
    if (etag === undefined) return payload
    reply.header('vary', 'Accept-Encoding')
    const encoding = preferredEncoding(request.headers['accept-encoding'])
    if (reply.statusCode !== 200 || encoding === 'identity' || !COMPRESSIBLE.test(String(type))) {
      return payload
    }
    reply.header('content-encoding', encoding).removeHeader('content-length').removeHeader('accept-ranges')
    if (request.method === 'HEAD') return payload

    // npm gives all files of a package the same time, so files of the same size have the same ETag.
    const key = `${encoding} ${String(etag)} ${request.url.replace(/\?.*$/s, '')}`
    let compressed = kept.get(key)
    if (compressed === undefined) {
      const bytes = Buffer.isBuffer(payload) ? Promise.resolve(payload) : buffer(payload as Readable)
      kept.set(key, compressed = bytes.then(compress[encoding]))
      compressed.catch(() => kept.delete(key))
    } else if (payload instanceof Readable) payload.destroy()
    return await compressed
  })
}
