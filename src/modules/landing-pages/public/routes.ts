import type { FastifyPluginAsync } from 'fastify'
import { uncheckedInput } from '../../../http/validation.ts'
import { sampled } from '../../../http/access-log.ts'
import { DOCUMENT_CORS_HEADERS } from '../../../http/common-headers.ts'
import { preflightSchema, publicReadSchema } from '../schemas.ts'
import { ReadHandler } from './read-handler.ts'
import { ReadLimit } from './read-limit.ts'
import { ReadReporter } from './read-reporter.ts'

const PREFLIGHT = {
  ...DOCUMENT_CORS_HEADERS,
  'access-control-allow-methods': 'GET, HEAD, OPTIONS',
  allow: 'GET, HEAD, OPTIONS',
  vary: 'Access-Control-Request-Headers',
  'access-control-max-age': '86400'
}

/** The public read. Register it outside the scopes that have hooks (`app.ts`). */
export const publicRoutes: FastifyPluginAsync = async (app) => {
  const limit = new ReadLimit(app.config, app.leases)
  app.addHook('onClose', async () => {
    await limit.close().catch((error: unknown) =>
      app.log.warn(
        { err: error },
        'the process could not hand over its part of the read limit; it is reserved for a minute'
      )
    )
  })
  const reporter = new ReadReporter(app)
  reporter.addMetrics(app.metrics)
  app.addHook('onReady', async () => reporter.start())
  app.addHook('onClose', async () => await reporter.close())
  const reads = new ReadHandler(app, limit, reporter.tally)

  app.get('/landing_pages/:public_id', {
    schema: publicReadSchema,
    config: { anyOrigin: true },
    validatorCompiler: uncheckedInput, // the limit must count malformed ids, too
    childLoggerFactory: () => app.log // a logger per request reduces the rate by 5 %
  }, sampled(app, (request, reply) => reads.handle(request, reply)))
}

/** The preflight of the public read. Browsers cache it for a day, so it needn't be as fast. */
export const publicPreflight: FastifyPluginAsync = async (app) => {
  app.options(
    '/landing_pages/:public_id',
    { schema: preflightSchema, config: { log: 'sample' } },
    (request, reply) => {
      // All headers are allowed, because pages use HTTP libraries that add their own to every request.
      const asked = request.headers['access-control-request-headers'] ?? 'If-None-Match, X-Request-Id'
      reply.code(204).headers(PREFLIGHT).header('access-control-allow-headers', asked).send()
    }
  )
}
