import { once } from 'node:events'
import { createServer } from 'node:http'
import { totalmem } from 'node:os'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Counter, Gauge, Registry, type CounterConfiguration,
  type GaugeConfiguration } from 'prom-client'
import { COMMIT, VERSION } from '../system/version.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The registry to which all modules add their metrics. docs/metrics.md describes all metrics. */
    metrics: Registry
  }
}

/**
 * Adds prom-client's metrics of the process (`process_*`, `nodejs_*`) and the limit of its memory. Measuring
 * them costs some time.
 */
export function measureProcess (registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  // Sums of metrics that have the same name without `_total`, a suffix that only counters may have.
  for (const kind of ['handles', 'requests', 'resources']) {
    registry.removeSingleMetric(`nodejs_active_${kind}_total`)
  }
  addMetrics(registry, {
    landfall_memory_limit_bytes: [
      'Memory of the container, or of the machine without such a limit',
      () => Math.min(process.constrainedMemory() || Infinity, totalmem()),
      { aggregator: 'max' }
    ]
  })
}

type LabelledValues = Readonly<Record<string, number>>

interface MetricOptions {
  readonly label?: string
  /** How the values of several workers are combined. Default: their sum. */
  readonly aggregator?: 'min' | 'max'
}

type MetricConfiguration = CounterConfiguration<string> & GaugeConfiguration<string>

/** What a metric means, what reads its value, and its options. */
type Metric = readonly [help: string, read: () => number | LabelledValues, options?: MetricOptions]

/**
 * Adds metrics by name: counters, whose names end in `_total`, and gauges. Values are read when metrics are
 * collected. Incrementing a variable takes much less time than prom-client's `inc`.
 */
export function addMetrics (registry: Registry, metrics: Readonly<Record<string, Metric>>): void {
  for (const [name, [help, read, { label, ...options } = {}]] of Object.entries(metrics)) {
    const Kind: new(configuration: MetricConfiguration) => object = name.endsWith('_total') ? Counter : Gauge
    // eslint-disable-next-line no-new
    new Kind({
      name,
      help,
      ...options,
      labelNames: label === undefined ? [] : [label],
      registers: [registry],
      collect () {
        this.reset()
        for (const [labels, value] of toSamples(read(), label)) this.inc(labels, value)
      }
    })
  }
}

function toSamples (
  values: number | LabelledValues,
  label: string | undefined
): [labels: Record<string, string>, value: number][] {
  if (typeof values === 'number' || label === undefined) return [[{}, Number(values)]]
  return Object.entries(values).map(([key, value]) => [{ [label]: key }, value])
}

/** Adds a gauge whose labels say which release runs. */
function measureBuild (registry: Registry): void {
  new Gauge({
    name: 'landfall_build_info',
    help: 'Always 1; the labels have the version and commit of Landfall, and the version of Node',
    labelNames: ['version', 'commit', 'node_version'],
    aggregator: 'max',
    registers: [registry]
  }).set({ version: VERSION, commit: COMMIT ?? 'unknown', node_version: process.version }, 1)
}

interface MetricsListenerOptions {
  host: string
  port: number
  log: FastifyBaseLogger
}

/**
 * Serves GET and HEAD /metrics on a separate port, which must not be public.
 *
 * @param collect returns the metrics in Prometheus' text format
 * @returns a function that closes the listener
 * @throws {Error} if the port can't be used; the message has one line
 */
export async function serveMetrics (
  { host, port, log }: MetricsListenerOptions,
  collect: () => Promise<string>
): Promise<() => Promise<void>> {
  const json = { 'content-type': 'application/json; charset=utf-8' }
  const server = createServer((request, response) => {
    // Prometheus may be configured to add a query string.
    if (!/^(GET|HEAD)$/.test(request.method ?? '') || !/^\/metrics(\?|$)/.test(request.url ?? '')) {
      response.writeHead(404, json).end(JSON.stringify({ errors: ['Not found'] }))
      return
    }
    collect().then(
      (text) => response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
      (error: unknown) => {
        log.error({ err: error }, 'metrics could not be collected')
        response.writeHead(500, json).end(JSON.stringify({ errors: ['Something went wrong'] }))
      }
    )
  })
  server.listen(port, host)
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') {
      throw new Error(`Port ${port} of ${host} is in use by another process: stop it, or set OPS_PORT to ` +
        'another port')
    }
    throw new Error(`OPS_PORT must be a port that the service can listen on: ${host}:${port} failed ` +
      `(${error.code ?? error.message})`)
  })
  log.info({ address: server.address() }, 'serving /metrics at this address')
  return async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

/** Creates the registry, and serves it on OPS_PORT if that is set. */
export default fp(async (app) => {
  const { HOST: host, OPS_PORT: port } = app.config
  const registry = new Registry()
  app.decorate('metrics', registry)
  measureBuild(registry)
  if (port === undefined) return

  measureProcess(registry)
  let closeListener: (() => Promise<void>) | undefined
  // In onReady, because some metrics read values of plugins that are registered later.
  app.addHook('onReady', async () => {
    closeListener = await serveMetrics({ host, port, log: app.log }, async () => await registry.metrics())
  })
  app.addHook('onClose', async () => await closeListener?.())
}, { name: 'metrics' })
