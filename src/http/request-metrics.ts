import fp from 'fastify-plugin'
import { Histogram } from 'prom-client'
import { onResponseEnd } from './responses.ts'

/** In seconds, from a query of one row to a large upload over a slow connection. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]

declare module 'fastify' {
  interface FastifyRequest {
    /** How long the response was delayed because the client asked for that, in milliseconds. */
    waitedMs: number
  }
}

/**
 * Measures the duration of the requests in its scope. Public reads have faster counters
 * (`modules/landing-pages/public/read-metrics.ts`).
 */
export default fp(async (app) => {
  const seconds = new Histogram({
    name: 'landfall_http_request_duration_seconds',
    help:
      'Duration of requests other than public reads, by method, route pattern and status class (aborted: ' +
      'the client disconnected)',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [app.metrics]
  })
  app.decorateRequest('waitedMs', 0)
  // A first failure counts as an increase only if Prometheus has seen the series before.
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) seconds.zero({ method: each, route: url, status: '5xx' })
  })
  app.addHook('onRequest', (request, reply, done) => {
    const startedAt = performance.now()
    const { method, routeOptions: { url: route = 'none' } } = request
    onResponseEnd(reply.raw, (isComplete) => {
      const status = isComplete ? `${Math.floor(reply.raw.statusCode / 100)}xx` : 'aborted'
      seconds.observe({ method, route, status }, (performance.now() - startedAt - request.waitedMs) / 1000)
    })
    done()
  })
}, { name: 'request-metrics', dependencies: ['metrics'] })
