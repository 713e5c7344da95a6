import { createServer } from 'node:http'
import { once } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * What this process tells Prometheus; there is one also when nobody listens. The values of all workers are added
     * up unless a metric says otherwise (prom-client's `aggregator`).
     */
    metrics: Registry
  }
}

export interface MetricsListenerOptions {
  host: string
  port: number
  log: FastifyBaseLogger
}

/**
 * Answers `GET /metrics` on a listener of its own, which the public never reaches.
 *
 * @param collect gives the metrics in Prometheus' text format
 * @returns a function that ends the listener
 * @throws {Error} when the port can't be had; `message` is one line for whoever runs the service
 */
export async function listenForMetrics ({ host, port, log }: MetricsListenerOptions, collect: () => Promise<string>): Promise<() => Promise<void>> {
  const json = { 'content-type': 'application/json; charset=utf-8' }
  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404, json).end(JSON.stringify({ errors: ['Not found'] }))
      return
    }
    collect().then(
      (text) => response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
      (error: unknown) => {
        log.error({ err: error }, 'metrics failed')
        response.writeHead(500, json).end(JSON.stringify({ errors: ['Something went wrong'] }))
      }
    )
  })
  server.listen(port, host)
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`OPS_PORT must be a free port, which ${host}:${port} is not (${error.code ?? error.message})`)
  })
  log.info({ address: server.address() }, 'metrics are at /metrics of this address')
  return async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

/** Adds what prom-client measures of the process itself (`process_*`, `nodejs_*`). It costs a little: only where somebody listens. */
export function measureProcess (registry: Registry): void {
  collectDefaultMetrics({ register: registry })
}

/** The registry of this process, and its listener when there is a port for one. Rooms may be registered before or after. */
export default fp<{ host: string, port: number | undefined }>(async (app, { host, port }) => {
  const registry = new Registry()
  app.decorate('metrics', registry)
  const lowest = (name: string, help: string, isOne: () => boolean) =>
    new Gauge({ name, help, aggregator: 'min', registers: [registry], collect () { this.set(isOne() ? 1 : 0) } })
  lowest('landfall_limits_shared', 'Limits are counted in Redis, over all replicas (1) or in a process alone (0)', () => app.counters.shared)
  lowest('landfall_invalidation_channel_up', "Other replicas' writes are heard (1) or not (0)", () => app.shared?.subscribed ?? false)
  if (port === undefined) return

  measureProcess(registry)
  let closeListener: (() => Promise<void>) | undefined
  // Once all rooms are there that a metric may look into.
  app.addHook('onReady', async () => {
    closeListener = await listenForMetrics({ host, port, log: app.log }, async () => await registry.metrics())
  })
  app.addHook('onClose', async () => await closeListener?.())
}, { name: 'metrics' })
