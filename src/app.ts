import sensible from '@fastify/sensible'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { accountDeletion, accountDeletionRoutes } from './modules/account-deletion/index.ts'
import { accountMetrics, accountSettingsRoutes, apiKeyRoutes, authenticate, authRoutes, browserSessionRoutes,
  credentialCheck, linkPageRoutes, mail, passwordRoutes, passwords, requireAccess, requireSession,
  sessionRoutes } from './modules/accounts/index.ts'
import { assetCleanup, assetRoutes, fileStore, uploadsRoutes, variants } from './modules/assets/index.ts'
import { sendsMail, type Config } from './config.ts'
import { cdn } from './modules/cdn/index.ts'
import { consoleRoutes } from './modules/console/index.ts'
import { rateLimit, RATE_LIMIT_SCRIPTS, WINDOW_CHANNEL } from './modules/rate-limit/index.ts'
import { embeddedSecret } from './infra/pglite/embedded.ts'
import { assetReferences, documentCache, DOCUMENT_CHANNEL, DOCUMENT_SCRIPTS, manageRoutes, pageCleanup,
  previewLinkRoutes, previewRoutes, publicPreflight, publicRoutes,
  schedules } from './modules/landing-pages/index.ts'
import { createLogger } from './infra/telemetry/logger.ts'
import unreadResponses, { countUnreadResponses } from './http/hardening/unread-responses.ts'
import { compressResponses } from './http/content-encoding.ts'
import connectionLimit from './http/hardening/connection-limit.ts'
import database from './infra/database.ts'
import { defaultSecretsKey } from './infra/system/identifiers.ts'
import shutdown from './http/shutdown.ts'
import headCheck, { MAX_HEADERS } from './http/hardening/head-check.ts'
import requestIdHeader, { requestId } from './http/request-id.ts'
import { allowOrigins } from './http/cors.ts'
import clientAddress from './http/client-address.ts'
import errorHandler, { sendFrameworkError } from './http/error-handler.ts'
import routeLookup, { notFound } from './http/route-lookup.ts'
import unroutedRequests, { refuseUnreadableRequest } from './http/hardening/unrouted-requests.ts'
import { limitBodyMemory } from './http/hardening/body-memory.ts'
import health from './http/health.ts'
import { lingeringClose } from './http/hardening/lingering-close.ts'
import { coalesceChunks } from './http/hardening/coalesce-chunks.ts'
import jsonBody, { allowTypeWithoutBody } from './http/json-body.ts'
import loadShedding from './http/load-shedding.ts'
import metrics from './infra/telemetry/metrics.ts'
import { PipelinedResponse, refusePipelining } from './http/hardening/pipelining.ts'
import openapi, { referenceRoutes } from './http/openapi/plugin.ts'
import redis from './infra/redis/plugin.ts'
import requestMetrics from './http/request-metrics.ts'
import accessLog, { logRequests } from './http/access-log.ts'
import securityHeaders, { secureResponses } from './http/common-headers.ts'
import { serializerCompiler } from './http/schemas.ts'
import { createValidationError, refuseUnknownParameters, validatorCompiler } from './http/validation.ts'
import { webhookRoutes, webhooks } from './modules/webhooks/index.ts'
import tracing from './infra/telemetry/tracing.ts'
import { traceRequests } from './http/request-tracing.ts'

declare module 'fastify' {
  interface FastifyInstance {
    config: Config
    /** The public address of the service, without a slash at the end. */
    baseUrl: () => string
    /** Returns the path by which clients reach a path of the service. It differs if BASE_URL has a path. */
    publicPath: (path: string) => string
  }
}

/** Size limit of request bodies, in bytes, for routes that set no limit of their own. */
const BODY_LIMIT = 64 * 1024
/** Inactivity after which a socket with an open request is closed. */
const IDLE_SOCKET_MS = 60_000
/** Time limit for receiving a whole request. Allows a large upload over a slow connection. */
const REQUEST_TIMEOUT_MS = 15 * 60_000
/** Size limit of the request line and the headers together. */
const MAX_HEADER_BYTES = 16 * 1024
/** Longest interval between Node's checks for slow requests. The default, 30 s, would delay the limits. */
const MAX_CHECK_INTERVAL_MS = 5_000

/**
 * Builds the service from its plugins, in the order of their dependencies. The returned app is ready for
 * `listen()` and `inject()`; its `close()` releases everything that was opened.
 *
 * @throws {Error} if the database can't be reached or migrated, or a folder can't be used
 */
export async function buildApp (config: Config, logger?: FastifyBaseLogger): Promise<FastifyInstance> {
  const app = createInstance(config, logger)
  try {
    await registerPlugins(app, config)
    await app.register(publicRoutes)
    await app.register(otherRoutes)
    await app.ready()
  } catch (error) {
    await app.close()
    throw error
  }
  return app
}

/** Creates the server with its limits, its logger and its decorators, but without plugins. */
function createInstance (config: Config, logger: FastifyBaseLogger | undefined) {
  const app = Fastify({
    // The access log (http/access-log.ts) writes one line per request.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: config.TRUST_PROXY.length > 0 ? [...config.TRUST_PROXY] : false,
    genReqId: requestId,
    bodyLimit: BODY_LIMIT,
    pluginTimeout: 0, // the start may wait until another replica has applied the migrations
    connectionTimeout: IDLE_SOCKET_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    // The asterisk of `OPTIONS *` has no route. The origin of an absolute URL has no meaning here.
    rewriteUrl: ({ url = '' }) =>
      url.startsWith('/') ? url : `/${url.replace(/^https?:\/\/[^/?#]*\/?/i, '')}`,
    return503OnClosing: false, // requests that arrive during the shutdown are still served
    routerOptions: { maxParamLength: 16 * 1024 }, // an id that is too long gets a 404, like an unknown one
    http: {
      ServerResponse: PipelinedResponse,
      requireHostHeader: false, // head-check.ts refuses such requests, with an error body
      joinDuplicateHeaders: true, // by default, Node drops the second Host header
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: config.HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: Math.min(MAX_CHECK_INTERVAL_MS, config.HEADERS_TIMEOUT_MS)
    },
    frameworkErrors: sendFrameworkError,
    clientErrorHandler: refuseUnreadableRequest
  }).withTypeProvider<TypeBoxTypeProvider>()
  // Node drops the headers beyond. One too many is enough for head-check.ts to refuse the request.
  app.server.maxHeadersCount = MAX_HEADERS + 1

  // Fastify would track the end of each response for a logger in its constructor options, which makes public
  // reads 5 % slower. Every route except the public read gets a child logger per request.
  app.log = logger ?? createLogger(config)
  app.setChildLoggerFactory((_none, bindings, options) => app.log.child(bindings, options))

  app.decorate('config', config)
  app.decorate('baseUrl', () => config.BASE_URL ?? listeningUrl(app))
  const basePath = config.BASE_URL === undefined ? '' : new URL(config.BASE_URL).pathname.replace(/\/$/, '')
  app.decorate('publicPath', (path) => basePath + path)
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.setSchemaErrorFormatter(createValidationError)

  return app
}

/** Registers what the modules share. A plugin's `dependencies` are those that must come before it. */
async function registerPlugins (app: ReturnType<typeof createInstance>, config: Config): Promise<void> {
  await app.register(sensible)
  await app.register(metrics)
  await app.register(tracing)
  await app.register(connectionLimit)
  await app.register(unreadResponses)
  await app.register(shutdown)
  await app.register(securityHeaders)
  await app.register(routeLookup)
  await app.register(errorHandler)
  await app.register(unroutedRequests)
  await app.register(jsonBody)
  await app.register(clientAddress)
  await app.register(accessLog)
  await app.register(database)
  await app.register(redis, {
    channels: [DOCUMENT_CHANNEL, WINDOW_CHANNEL],
    scripts: { ...RATE_LIMIT_SCRIPTS, ...DOCUMENT_SCRIPTS }
  })
  await app.register(rateLimit)
  await app.register(documentCache, { channel: DOCUMENT_CHANNEL })
  await app.register(passwords)
  await app.register(accountMetrics)
  await app.register(credentialCheck)
  await app.register(mail)
  const secret = config.JWT_SECRET ?? await embeddedSecret(config.DATA_DIR)
  await app.register(webhooks, { secretsKey: config.SECRETS_KEY ?? defaultSecretsKey(secret) })
  await app.register(cdn)
  await app.register(authenticate, {
    secret,
    accessTokenSeconds: config.ACCESS_TOKEN_TTL
  })
  await app.register(fileStore)
  await app.register(variants)
  await app.register(assetCleanup)
  await app.register(pageCleanup)
  await app.register(schedules)
  await app.register(assetReferences)
  await app.register(accountDeletion)
  await app.register(openapi)
}

/**
 * All routes except the public read. Their hooks are added in this scope. In the outer scope they would also
 * run for public reads, even if they were added later.
 */
async function otherRoutes (scope: FastifyInstance): Promise<void> {
  scope.addHook('onRequest', refusePipelining)
  coalesceChunks(scope)
  logRequests(scope)
  await scope.register(requestMetrics)
  secureResponses(scope)
  await scope.register(requestIdHeader)
  await scope.register(headCheck)
  limitBodyMemory(scope)
  countUnreadResponses(scope)
  scope.addHook('onSend', lingeringClose())
  await scope.register(notFound)
  await scope.register(publicPreflight)
  await scope.register(health)
  await scope.register(referenceRoutes)
  if (scope.config.CONSOLE) await scope.register(consoleRoutes)
  if (sendsMail(scope.config)) await scope.register(linkPageRoutes)
  await scope.register(uploadsRoutes)
  await scope.register(previewRoutes)
  await scope.register(managementApi)
}

/** The management API. Pages of CORS_ORIGINS may call it, and an overloaded process refuses its requests. */
async function managementApi (scope: FastifyInstance): Promise<void> {
  if (scope.tracer !== undefined) traceRequests(scope, scope.tracer)
  await allowOrigins(scope)
  await scope.register(loadShedding)
  refuseUnknownParameters(scope)

  await scope.register(authRoutes)
  await scope.register(browserSessionRoutes)
  await scope.register(async function forSessions (inner: FastifyInstance) {
    requireSession(inner)
    allowTypeWithoutBody(inner)
    await inner.register(sessionRoutes)
    await inner.register(accountSettingsRoutes)
    await inner.register(passwordRoutes)
    await inner.register(apiKeyRoutes)
    await inner.register(accountDeletionRoutes)
    if (inner.config.WEBHOOKS) await inner.register(webhookRoutes)
  })
  await scope.register(async function forPages (inner: FastifyInstance) {
    requireAccess(inner, 'pages')
    compressResponses(inner)
    allowTypeWithoutBody(inner)
    await inner.register(manageRoutes)
    await inner.register(previewLinkRoutes)
  })
  await scope.register(async function forAssets (inner: FastifyInstance) {
    requireAccess(inner, 'assets')
    compressResponses(inner)
    allowTypeWithoutBody(inner)
    await inner.register(assetRoutes)
  })
}

function listeningUrl (app: FastifyInstance): string {
  const address = app.server.address()
  const port = typeof address === 'object' && address !== null ? address.port : app.config.PORT
  return `http://localhost:${port}`
}
