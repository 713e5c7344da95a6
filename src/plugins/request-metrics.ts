import fp from 'fastify-plugin'
import { Histogram } from 'prom-client'
import { whenOver } from '../reply.ts'

/** In seconds: from a row by its key to a large upload on a slow line. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]

/**
 * Measures the requests of its scope by route pattern, method and class of status. Not for public reads, whose rate it
 * would lower: those are counted in plain numbers (`landing-pages/read-metrics.ts`).
 */
export default fp(async (app) => {
  const seconds = new Histogram({
    name: 'landfall_http_request_duration_seconds',
    help: 'Requests other than public reads, from their headers to the end of the answer, by route pattern, method and class of status (aborted: the client hung up)',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [app.metrics]
  })
  app.addHook('onRequest', (request, reply, done) => {
    const startedAt = performance.now()
    const { method, routeOptions: { url: route = 'none' } } = request
    whenOver(reply.raw, (isWhole) => {
      const status = isWhole ? `${Math.floor(reply.raw.statusCode / 100)}xx` : 'aborted'
      seconds.observe({ method, route, status }, (performance.now() - startedAt) / 1000)
    })
    done()
  })
}, { name: 'request-metrics', dependencies: ['metrics'] })
