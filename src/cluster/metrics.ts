import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client'
import type { WorkerProcess } from './worker-process.ts'
import type { MetricsJson } from './worker.ts'

/**
 * The metrics of all workers as one. Counters go on from where a worker that ended has left them: a sum that fell would
 * look to Prometheus like a restart of the whole, and what the others have counted would be counted again.
 */
export class ClusterMetrics {
  readonly #workers: ReadonlySet<WorkerProcess>
  readonly #own = new Registry()
  readonly #restarts: Counter
  /** What each worker said last. */
  readonly #last = new Map<WorkerProcess, MetricsJson>()
  /** The same of all that have ended, as far as it only grows. */
  #ended: MetricsJson = []
  #folding = Promise.resolve()

  /** @param workers those that run, kept up to date by their owner */
  constructor (workers: ReadonlySet<WorkerProcess>) {
    this.#workers = workers
    const registers = [this.#own]
    const listening = () => [...workers].filter(({ isListening }) => isListening).length
    // eslint-disable-next-line no-new
    new Gauge({ name: 'landfall_workers', help: 'Workers of WEB_CONCURRENCY that listen', registers, collect () { this.set(listening()) } })
    this.#restarts = new Counter({ name: 'landfall_worker_restarts_total', help: 'Workers that ended by themselves and were replaced', registers })
  }

  /** Keeps what a worker that ended by itself had counted. */
  retire (worker: WorkerProcess): void {
    this.#restarts.inc()
    this.#folding = this.#folding.then(async () => {
      const counted = this.#last.get(worker)?.filter(({ type }) => ['counter', 'histogram'].includes(String(type))) ?? []
      this.#ended = await AggregatorRegistry.aggregate([this.#ended, counted]).getMetricsAsJSON()
      this.#last.delete(worker)
    }).catch(() => {}) // a sum that is wrong once is no reason to end
  }

  /** All metrics in Prometheus' text format. A worker that doesn't answer in time counts with what it said before. */
  async collect (): Promise<string> {
    await Promise.all([...this.#workers].filter(({ isListening }) => isListening).map(async (worker) => {
      const metrics = await worker.metrics()
      if (metrics !== undefined && this.#workers.has(worker)) this.#last.set(worker, metrics)
    }))
    const all = [...this.#last.values(), this.#ended, await this.#own.getMetricsAsJSON()]
    return await AggregatorRegistry.aggregate(all).metrics()
  }
}
