import Fastify, { type FastifyInstance } from 'fastify'
import type { Config } from '../../src/config.ts'
import databasePlugin from '../../src/infra/database.ts'
import metrics from '../../src/infra/telemetry/metrics.ts'
import tracing from '../../src/infra/telemetry/tracing.ts'

/** Returns an app with only the database plugin and the plugins that it needs; the caller closes it. */
export function databaseApp (config: Config): FastifyInstance {
  const app = Fastify({ pluginTimeout: 0 })
  app.decorate('config', config)
  app.register(metrics)
  app.register(tracing)
  app.register(databasePlugin)
  return app
}
