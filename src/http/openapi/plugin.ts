import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { Type, type TObject } from '@sinclair/typebox'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, FastifySchema,
  onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { NotFoundError } from '../../errors.ts'
import { VERSION } from '../../infra/system/version.ts'
import { readBuiltFile, sendBuiltFile, type BuiltFile } from '../built-files.ts'
import { JSON_CONTENT_TYPE } from '../common-headers.ts'
import { compress } from '../content-encoding.ts'
import { contentHash } from '../conditional-requests.ts'
import { finishDocument, type OpenApiDocument } from './finish.ts'
import { INFO, SECURITY_SCHEMES, TAGS } from './info.ts'
import { errors, nothing, response } from '../schemas.ts'

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
    ...errors([400, 412], CORS)
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

  const documents = new Map<string, Promise<BuiltFile>>()
  /** Sends the document. The server is relative to its URL, so that it also holds behind a proxy. */
  async function sendDocument (
    request: FastifyRequest,
    reply: FastifyReply,
    server: string
  ): Promise<FastifyReply> {
    const document = documents.get(server) ?? createDocument(server)
    documents.set(server, document)
    document.catch(() => documents.delete(server))
    return sendBuiltFile(request, reply, await document)
  }

  async function createDocument (server: string): Promise<BuiltFile> {
    const bytes = Buffer
      .from(JSON.stringify({ ...app.swagger(), servers: [{ url: server, description: 'this host' }] }))
    const [br, gzip] = await Promise.all([compress.br(bytes), compress.gzip(bytes)])
    return { type: JSON_CONTENT_TYPE, hash: contentHash(bytes), bytes, br, gzip }
  }

  app.get(
    '/openapi.json',
    { schema: documentSchema, config: { anyOrigin: true } },
    async (request, reply) => await sendDocument(request, reply, '.')
  )

  if (existsSync(CLIENT_PACKAGE)) {
    const file = readBuiltFile(CLIENT_PACKAGE)
    app.get('/client.tgz', (request, reply) => {
      reply.header('content-disposition', `attachment; filename="landfall-client-${VERSION}.tgz"`)
      return sendBuiltFile(request, reply, file)
    })
  } else app.log.warn('/client.tgz is missing; "npm run build" packs the client')

  // @fastify/swagger-ui would generate the document for every request, in 2 ms, or in 30 ms as YAML.
  const respondOnce: onRequestAsyncHookHandler = async (request, reply) => {
    const { url } = request.routeOptions
    if (url === '/docs/yaml') throw new NotFoundError()
    if (url === '/docs/json') return await sendDocument(request, reply, '..')
    // With a query, @fastify/swagger-ui would write wrong URLs into the page.
    const [path = '', query] = request.url.split('?')
    if (path === '/docs/static/index.html') return reply.redirect('../')
    if (query !== undefined && /^\/docs\/?$/.test(path)) {
      return reply.redirect(path.endsWith('/') ? './' : './docs')
    }
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
