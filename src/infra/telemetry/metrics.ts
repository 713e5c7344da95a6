import { totalmem } from 'node:os'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Counter, Gauge, Registry, type CounterConfiguration,
  type GaugeConfiguration } from 'prom-client'
import { COMMIT, VERSION } from '../system/version.ts'
import { serveMetrics } from './metrics-listener.ts'

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

/** What a metric means, what reads its value, and its options. */
type Metric = readonly [help: string, read: () => number | LabelledValues, options?: MetricOptions]

/**
 * Adds metrics by name: counters, whose names end in `_total`, and gauges. Values are read when metrics are
 * collected. Incrementing a variable takes much less time than prom-client's `inc`.
 */
export function addMetrics (registry: Registry, metrics: Readonly<Record<string, Metric>>): void {
  for (const [name, [help, read, { label, ...options } = {}]] of Object.entries(metrics)) {
    const labelNames = label === undefined ? [] : [label]
    const configuration = { name, help, ...options, labelNames, registers: [registry] }
    const samples = () => toSamples(read(), label)
    if (name.endsWith('_total')) addCounter(configuration, samples)
    else addGauge(configuration, samples)
  }
}

type Samples = () => [labels: Record<string, string>, value: number][]

function addCounter (configuration: CounterConfiguration<string>, samples: Samples): void {
  // eslint-disable-next-line no-new
  new Counter({
    ...configuration,
    collect () {
      this.reset()
      for (const [labels, value] of samples()) this.inc(labels, value)
    }
  })
}

function addGauge (configuration: GaugeConfiguration<string>, samples: Samples): void {
  // eslint-disable-next-line no-new
  new Gauge({
    ...configuration,
    collect () {
      for (const [labels, value] of samples()) this.set(labels, value)
    }
  })
}

function toSamples (values: number | LabelledValues, label: string | undefined): ReturnType<Samples> {
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

/** Creates the registry, and serves it on `port` if that is set. */
export default fp<{ host: string, port: number | undefined }>(async (app, { host, port }) => {
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
