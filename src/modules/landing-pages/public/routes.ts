import type { FastifyPluginAsync } from 'fastify'
import { uncheckedInput } from '../../../http/validation.ts'
import { sampled } from '../../../http/access-log.ts'
import { DOCUMENT_CORS_HEADERS } from '../../../http/common-headers.ts'
import { allowRead } from '../../../http/cors.ts'
import { preflightSchema, publicReadSchema } from '../schemas.ts'
import { ReadHandler } from './read-handler.ts'
import { ReadLimit } from './read-limit.ts'
import { ReadReporter } from './read-reporter.ts'

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
    async (request, reply) =>
      allowRead(request, reply.headers(DOCUMENT_CORS_HEADERS), 'If-None-Match, X-Request-Id')
  )
}
