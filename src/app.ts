import cors from '@fastify/cors'
import sensible from '@fastify/sensible'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import fileStore from './assets/file-store.ts'
import { assetRoutes } from './assets/routes.ts'
import { uploadsRoutes } from './assets/serve.ts'
import assetSweep from './assets/sweep.ts'
import authCounts from './auth/auth-counts.ts'
import { authRoutes, sessionRoutes } from './auth/routes.ts'
import passwords from './auth/passwords.ts'
import type { Config } from './config.ts'
import counters, { COUNTER_SCRIPTS } from './counters/counters.ts'
import { LEASE_SCRIPTS } from './counters/lease-store.ts'
import { embeddedSecret } from './database/embedded.ts'
import documentCache from './landing-pages/document-cache.ts'
import { manageRoutes } from './landing-pages/manage-routes.ts'
import { DOCUMENT_SCRIPTS } from './landing-pages/shared-documents.ts'
import { publicRoutes } from './landing-pages/public-routes.ts'
import { createLogger } from './logger.ts'
import authenticate, { requireSession } from './plugins/authenticate.ts'
import connectionLimit from './plugins/connection-limit.ts'
import database from './plugins/database.ts'
import drain from './plugins/drain.ts'
import everyRequest, { requestId } from './plugins/every-request.ts'
import clientAddress from './plugins/client-address.ts'
import errorHandler, { answerParserError, sendFrameworkError } from './plugins/error-handler.ts'
import health from './plugins/health.ts'
import { answerEarly } from './plugins/early-answer.ts'
import { joinPieces } from './plugins/join-pieces.ts'
import jsonBody, { allowTypeWithoutBody, limitBodyTime } from './plugins/json-body.ts'
import loadShedding from './plugins/load-shedding.ts'
import metrics from './plugins/metrics.ts'
import { AnswerInTurn, oneAtATime } from './plugins/one-at-a-time.ts'
import openapi, { referenceRoutes } from './plugins/openapi.ts'
import redis from './plugins/redis.ts'
import requestMetrics from './plugins/request-metrics.ts'
import requestLog, { logRequests } from './plugins/request-log.ts'
import securityHeaders, { secureAnswers } from './plugins/security-headers.ts'
import tracing from './plugins/tracing.ts'

declare module 'fastify' {
  interface FastifyInstance {
    config: Config
    /** The public address of the service, without a slash at the end. */
    baseUrl: () => string
  }
}

/** Bodies of all routes that don't say otherwise, in bytes. */
const BODY_LIMIT = 64 * 1024
/** A socket on which nothing moves for so long is closed. */
const IDLE_SOCKET_MS = 60_000
/** The longest that a request may take to arrive, however steadily: a large upload on a slow line. */
const REQUEST_TIMEOUT_MS = 15 * 60_000
/** Request line and headers. */
const MAX_HEADER_BYTES = 16 * 1024
/** Between two looks for requests that take too long to arrive. Node's own 30 s would be added to the shortest limit. */
const MAX_CHECK_INTERVAL_MS = 5_000
/** Redis channels of the messages between replicas: of documents that were written, of unused reads that are wanted back. */
const DOCUMENT_CHANNEL = 'landfall:documents'
const RECALL_CHANNEL = 'landfall:recalls'

/**
 * Builds the service: what it is made of, in order. It is ready to listen or to inject when the promise resolves, and
 * `close()` ends all that it opened.
 *
 * @throws when the database can't be reached or migrated, or a folder can't be used
 */
export async function buildApp (config: Config, logger?: FastifyBaseLogger): Promise<FastifyInstance> {
  const app = Fastify({
    // request-log writes a line for each.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: config.TRUST_PROXY.length > 0 ? [...config.TRUST_PROXY] : false,
    genReqId: requestId,
    bodyLimit: BODY_LIMIT,
    pluginTimeout: 0, // a start may have to wait for the migration of another replica
    connectionTimeout: IDLE_SOCKET_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    // The router would take the star that stands for no path (OPTIONS *) for the slash of one.
    rewriteUrl: ({ url = '' }) => url.startsWith('*') ? `/${url}` : url,
    return503OnClosing: false, // what still arrives while closing is answered, not refused
    routerOptions: { maxParamLength: 16 * 1024 }, // a long id is an unknown id
    http: {
      ServerResponse: AnswerInTurn,
      requireHostHeader: false, // error-handler answers that, with a body
      joinDuplicateHeaders: true, // what is sent twice is seen as two, not as the first alone
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: config.HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: Math.min(MAX_CHECK_INTERVAL_MS, config.HEADERS_TIMEOUT_MS)
    },
    frameworkErrors: sendFrameworkError,
    clientErrorHandler: answerParserError
  }).withTypeProvider<TypeBoxTypeProvider>()
  // Their size is bounded. Node forgets those beyond a number, which are the ones that a proxy puts behind a client's own.
  app.server.maxHeadersCount = 0

  // Given to Fastify itself, a logger would have it listen for the end of each answer, which costs the public read a
  // twentieth of its rate. All but that get a logger for each request here.
  app.log = logger ?? createLogger(config)
  app.setChildLoggerFactory((_none, bindings, options) => app.log.child(bindings, options))

  app.decorate('config', config)
  app.decorate('baseUrl', () => config.BASE_URL ?? listeningUrl(app))
  // The rooms check what they are sent by themselves and report every broken rule at once, in a sentence each; the
  // schemas describe the same to readers and serialise the answers.
  app.setValidatorCompiler(() => () => true)

  try {
    await app.register(sensible)
    await app.register(metrics, { host: config.HOST, port: config.OPS_PORT })
    await app.register(tracing, { config })
    await app.register(connectionLimit, { max: config.MAX_CONNECTIONS })
    await app.register(drain, { timeoutMs: config.SHUTDOWN_TIMEOUT_MS, delayMs: config.SHUTDOWN_DELAY_MS })
    await app.register(securityHeaders)
    await app.register(errorHandler)
    await app.register(jsonBody)
    await app.register(clientAddress)
    await app.register(requestLog)
    await app.register(database, { config })
    await app.register(redis, {
      url: config.REDIS_URL,
      channels: [DOCUMENT_CHANNEL, RECALL_CHANNEL],
      scripts: { ...COUNTER_SCRIPTS, ...LEASE_SCRIPTS, ...DOCUMENT_SCRIPTS }
    })
    await app.register(counters, { recallChannel: RECALL_CHANNEL })
    await app.register(documentCache, { channel: DOCUMENT_CHANNEL })
    await app.register(passwords)
    await app.register(authCounts)
    await app.register(authenticate, {
      secret: config.JWT_SECRET ?? await embeddedSecret(config.DATA_DIR),
      accessTokenSeconds: config.ACCESS_TOKEN_TTL
    })
    await app.register(fileStore)
    await app.register(assetSweep)

    await app.register(openapi)
    await app.register(publicRoutes)
    // A scope for all others' hooks: even one that is added later runs in the scopes beside it, and none is to run for a
    // public read.
    await app.register(async function allOthers (scope: FastifyInstance) {
      logRequests(scope)
      joinPieces(scope)
      oneAtATime(scope)
      await scope.register(requestMetrics)
      secureAnswers(scope)
      await scope.register(everyRequest)
      await scope.register(health)
      await scope.register(referenceRoutes)
      await scope.register(uploadsRoutes)
      await scope.register(managementApi)
    })
    await app.ready()
  } catch (error) {
    await app.close()
    throw error
  }
  return app
}

/** What owners call: open to the pages of CORS_ORIGINS, and the first to be refused under too much load. */
async function managementApi (scope: FastifyInstance): Promise<void> {
  scope.tracing?.traceRequests(scope)
  const { CORS_ORIGINS } = scope.config
  if (CORS_ORIGINS.length > 0) {
    await scope.register(cors, {
      origin: CORS_ORIGINS.includes('*') ? '*' : [...CORS_ORIGINS],
      methods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
      exposedHeaders: ['ETag', 'Retry-After', 'Link', 'X-Request-Id', 'WWW-Authenticate'],
      maxAge: 3600,
      strictPreflight: false // it would refuse an OPTIONS that is none in words of its own
    })
  }
  limitBodyTime(scope, scope.config.BODY_TIMEOUT_MS)
  scope.addHook('onSend', answerEarly())
  await scope.register(loadShedding)

  await scope.register(authRoutes)
  await scope.register(async function authenticated (inner: FastifyInstance) {
    requireSession(inner)
    allowTypeWithoutBody(inner)
    await inner.register(sessionRoutes)
    await inner.register(manageRoutes)
    await inner.register(assetRoutes)
  })
}

function listeningUrl (app: FastifyInstance): string {
  const address = app.server.address()
  const port = typeof address === 'object' && address !== null ? address.port : app.config.PORT
  return `http://localhost:${port}`
}
