import Fastify, { type FastifyInstance } from 'fastify'
import type { Config } from '../../src/config.ts'
import databasePlugin from '../../src/plugins/database.ts'
import metrics from '../../src/plugins/metrics.ts'
import tracing from '../../src/plugins/tracing.ts'

/** An app with nothing but a database and what it stands on; the caller closes it. */
export function databaseApp (config: Config): FastifyInstance {
  const app = Fastify({ pluginTimeout: 0 })
  app.register(metrics, { host: config.HOST, port: undefined })
  app.register(tracing, { config })
  app.register(databasePlugin, { config })
  return app
}
