import { createServer } from 'node:http'
import { once } from 'node:events'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** Prometheus metrics on a listener of their own, which the public never reaches. */
export default fp<{ host: string, port: number | undefined }>(async (app, { host, port }) => {
  if (port === undefined) return
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const sharedGauge = (name: string, help: string, isOne: () => boolean) =>
    new Gauge({ name, help, registers: [registry], collect () { this.set(isOne() ? 1 : 0) } })
  sharedGauge('landfall_limits_shared', 'Limits are counted in Redis, over all replicas (1) or in this process alone (0)', () => app.counters.shared)
  sharedGauge('landfall_invalidation_channel_up', "Other replicas' writes are heard (1) or not (0)", () => app.shared?.subscribed ?? false)

  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify({ errors: ['Not found'] }))
      return
    }
    registry.metrics().then(
      (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      (error: unknown) => {
        app.log.error({ err: error }, 'metrics failed')
        response.writeHead(500, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify({ errors: ['Something went wrong'] }))
      }
    )
  })
  server.listen(port, host)
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`OPS_PORT must be a free port, which ${host}:${port} is not (${error.code ?? error.message})`)
  })
  app.log.info({ address: server.address() }, 'metrics are at /metrics of this address')
  app.addHook('onClose', async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
}, { name: 'metrics', dependencies: ['counters', 'redis'] })
