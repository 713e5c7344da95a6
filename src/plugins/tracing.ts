import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import type { Tracing } from '../tracing/tracing.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined, and nothing of it loaded, unless OTEL_EXPORTER_OTLP_ENDPOINT is set. */
    tracing: Tracing | undefined
  }
}

/** Sends traces where OTEL_EXPORTER_OTLP_ENDPOINT says. */
async function plugin (app: FastifyInstance, { config }: { config: Config }): Promise<void> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT } = config
  if (OTEL_EXPORTER_OTLP_ENDPOINT === undefined) {
    app.decorate('tracing', undefined)
    return
  }
  const { openTelemetry } = await import('../tracing/open-telemetry.ts')
  const tracing = await openTelemetry({ ...config, OTEL_EXPORTER_OTLP_ENDPOINT }, app.log)
  app.decorate('tracing', tracing)
  // Hooks run in reverse, so that spans which end in the others' are sent, too.
  app.addHook('onClose', async () => await tracing.close())
}

export default fp(plugin, { name: 'tracing' })
