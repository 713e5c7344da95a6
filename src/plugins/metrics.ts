import { createServer } from 'node:http'
import { once } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * What this process tells Prometheus; there is one also when nobody listens. The values of all workers are added
     * up unless a metric says otherwise (prom-client's `aggregator`). Each room registers its own; docs/metrics.md
     * describes all of them.
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
 * Answers `GET /metrics`, and HEAD, on a listener of its own, which the public never reaches.
 *
 * @param collect gives the metrics in Prometheus' text format
 * @returns a function that ends the listener
 * @throws {Error} when the port can't be had; `message` is one line for whoever runs the service
 */
export async function listenForMetrics ({ host, port, log }: MetricsListenerOptions, collect: () => Promise<string>): Promise<() => Promise<void>> {
  const json = { 'content-type': 'application/json; charset=utf-8' }
  const server = createServer((request, response) => {
    // A query is allowed: Prometheus sends the `params` of a scrape as one.
    if (!/^(GET|HEAD)$/.test(request.method ?? '') || !/^\/metrics(\?|$)/.test(request.url ?? '')) {
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

export interface CountedMetric {
  readonly name: string
  readonly help: string
  /** Of how the workers' values become one; they are added up unless told. */
  readonly aggregator?: 'min' | 'max'
}

/** Values by their label; one without a label has the key ''. */
export type Values = Readonly<Record<string, number>>

/**
 * A counter over numbers that its room raises by itself: prom-client's own `inc` costs more than most of what is counted.
 *
 * @param label names what the keys of `read`'s answer are values of
 */
export function counterOf (registry: Registry, metric: CountedMetric, read: () => number | Values, label?: string): void {
  // eslint-disable-next-line no-new
  new Counter({
    ...metric,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect () {
      this.reset()
      for (const [labels, value] of labelled(read(), label)) this.inc(labels, value)
    }
  })
}

/** The same for what goes up and down. */
export function gaugeOf (registry: Registry, metric: CountedMetric, read: () => number | Values, label?: string): void {
  // eslint-disable-next-line no-new
  new Gauge({
    ...metric,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect () {
      for (const [labels, value] of labelled(read(), label)) this.set(labels, value)
    }
  })
}

function labelled (values: number | Values, label: string | undefined): [Record<string, string>, number][] {
  if (typeof values === 'number' || label === undefined) return [[{}, Number(values)]]
  return Object.entries(values).map(([key, value]) => [{ [label]: key }, value])
}

/** The registry of this process, and its listener when there is a port for one. Rooms may be registered before or after. */
export default fp<{ host: string, port: number | undefined }>(async (app, { host, port }) => {
  const registry = new Registry()
  app.decorate('metrics', registry)
  if (port === undefined) return

  measureProcess(registry)
  let closeListener: (() => Promise<void>) | undefined
  // Once all rooms are there that a metric may look into.
  app.addHook('onReady', async () => {
    closeListener = await listenForMetrics({ host, port, log: app.log }, async () => await registry.metrics())
  })
  app.addHook('onClose', async () => await closeListener?.())
}, { name: 'metrics' })
