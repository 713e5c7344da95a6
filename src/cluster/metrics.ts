import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client'
import type { WorkerProcess } from './worker-process.ts'
import type { MetricsJson } from './worker.ts'

/**
 * The sums of all workers' metrics. They include the counts of workers that ended, because Prometheus takes a
 * falling sum for a restart and would count the other workers' shares twice.
 */
export class ClusterMetrics {
  readonly #workers: ReadonlySet<WorkerProcess>
  readonly #own = new Registry()
  readonly #restarts: Counter
  readonly #last = new Map<WorkerProcess, MetricsJson>()
  /** The counters and histograms of workers that ended, added up. */
  #ended: MetricsJson = []
  #folding = Promise.resolve()

  /** @param workers the running workers; the owner keeps the set up to date */
  constructor (workers: ReadonlySet<WorkerProcess>) {
    this.#workers = workers
    const registers = [this.#own]
    const listening = () => [...workers].filter(({ isListening }) => isListening).length
    // eslint-disable-next-line no-new
    new Gauge({
      name: 'landfall_workers',
      help: 'Workers that are listening',
      registers,
      collect () {
        this.set(listening())
      }
    })
    this.#restarts = new Counter({
      name: 'landfall_worker_restarts_total',
      help: 'Workers that exited unexpectedly and were replaced',
      registers
    })
  }

  /** Adds the counts of a worker that crashed to those of the workers that ended. */
  retire (worker: WorkerProcess): void {
    this.#restarts.inc()
    this.#folding = this.#folding.then(async () => {
      const counted =
        this.#last.get(worker)?.filter(({ type }) => ['counter', 'histogram'].includes(String(type))) ?? []
      this.#ended = await AggregatorRegistry.aggregate([this.#ended, counted]).getMetricsAsJSON()
      this.#last.delete(worker)
    }).catch(() => {}) // the loss of one worker's counts must not stop the primary
  }

  /** Returns all metrics in Prometheus' text format, and a slow worker's metrics of the last time. */
  async collect (): Promise<string> {
    await Promise.all([...this.#workers].filter(({ isListening }) => isListening).map(async (worker) => {
      const metrics = await worker.metrics()
      if (metrics !== undefined && this.#workers.has(worker)) this.#last.set(worker, metrics)
    }))
    const all = [...this.#last.values(), this.#ended, await this.#own.getMetricsAsJSON()]
    return await AggregatorRegistry.aggregate(all).metrics()
  }
}
