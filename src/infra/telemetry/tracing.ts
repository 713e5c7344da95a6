import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Tracer } from './open-telemetry.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined unless OTEL_EXPORTER_OTLP_ENDPOINT is set. */
    tracer: Tracer | undefined
  }
}

/** Sends traces to OTEL_EXPORTER_OTLP_ENDPOINT. If that is not set, OpenTelemetry is not loaded. */
// A separate function, because TypeScript doesn't rewrite `import('….ts')` in an `export default` expression.
async function tracing (app: FastifyInstance): Promise<void> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT } = app.config
  if (OTEL_EXPORTER_OTLP_ENDPOINT === undefined) {
    app.decorate('tracer', undefined)
    return
  }
  const { createTracer } = await import('./open-telemetry.ts')
  const tracer = await createTracer({ ...app.config, OTEL_EXPORTER_OTLP_ENDPOINT }, app.log)
  app.decorate('tracer', tracer)
  // onClose hooks run in reverse order, so this one also sends the spans that end in the other hooks.
  app.addHook('onClose', async () => await tracer.close())
}

export default fp(tracing, { name: 'tracing' })
