import { totalmem } from 'node:os'
import fp from 'fastify-plugin'
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client'
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
  addGauge(registry, {
    name: 'landfall_memory_limit_bytes',
    help: 'Memory of the container, or of the machine without such a limit',
    aggregator: 'max'
  }, () => Math.min(process.constrainedMemory() || Infinity, totalmem()))
}

interface MetricDescription {
  readonly name: string
  readonly help: string
  /** How the values of several workers are combined. Default: their sum. */
  readonly aggregator?: 'min' | 'max'
}

/** Metric values by label value. */
type LabelledValues = Readonly<Record<string, number>>

/**
 * Adds a counter whose value is read when metrics are collected. Incrementing a variable takes much less time
 * than prom-client's `inc`.
 *
 * @param label the name of the label, if `read` returns labelled values
 */
export function addCounter (
  registry: Registry,
  description: MetricDescription,
  read: () => number | LabelledValues,
  label?: string
): void {
  // eslint-disable-next-line no-new
  new Counter({
    ...description,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect () {
      this.reset()
      for (const [labels, value] of toSamples(read(), label)) this.inc(labels, value)
    }
  })
}

/** Adds a gauge whose value is read when metrics are collected. The parameters are those of `addCounter`. */
export function addGauge (
  registry: Registry,
  description: MetricDescription,
  read: () => number | LabelledValues,
  label?: string
): void {
  // eslint-disable-next-line no-new
  new Gauge({
    ...description,
    labelNames: label === undefined ? [] : [label],
    registers: [registry],
    collect () {
      for (const [labels, value] of toSamples(read(), label)) this.set(labels, value)
    }
  })
}

function toSamples (
  values: number | LabelledValues,
  label: string | undefined
): [Record<string, string>, number][] {
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
