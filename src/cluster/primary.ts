import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { AggregatorRegistry, Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { addMetrics, serveMetrics } from '../infra/telemetry/metrics.ts'
import { WorkerProcess, type WorkerEnd } from './worker-process.ts'
import type { MetricsJson } from './worker.ts'

// The primary process starts the workers, distributes connections (node:cluster), replaces workers that
// crash, and stops them together. It answers no requests except for metrics.

/** A worker that takes longer to shut down than SHUTDOWN_TIMEOUT_MS plus this is killed. */
const GRACE_MS = 5000
/** The delay before a crashed worker is replaced. It doubles until a worker has run for LONG_LIFE_MS. */
const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 30_000
const LONG_LIFE_MS = 60_000

/**
 * Runs WEB_CONCURRENCY workers until SIGTERM or SIGINT, which end the process.
 *
 * @returns when all workers listen
 * @throws {Error} when a worker can't start; the message is one line, and all workers have ended
 */
export async function runWorkers (config: Config, log: FastifyBaseLogger): Promise<void> {
  await new Primary(config, log).start()
}

class Primary {
  readonly #config: Config
  readonly #log: FastifyBaseLogger
  readonly #workers = new Set<WorkerProcess>()
  readonly #metrics = new ClusterMetrics(this.#workers)
  readonly #ending = new AbortController()

  constructor (config: Config, log: FastifyBaseLogger) {
    this.#config = config
    this.#log = log
  }

  async start (): Promise<void> {
    const { HOST, OPS_PORT, WEB_CONCURRENCY } = this.#config
    if (OPS_PORT !== undefined) {
      await serveMetrics(
        { host: HOST, port: OPS_PORT, log: this.#log },
        async () => await this.#metrics.collect()
      )
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        this.#onSignal(signal)
      })
    }

    let port = 0
    try {
      // One worker starts first, so that it migrates for all and an error at start is reported only once.
      const first = this.#fork()
      port = await first.listening
      const others = Array.from({ length: this.#isEnding ? 0 : WEB_CONCURRENCY - 1 }, () => this.#fork())
      await Promise.all(others.map(async ({ listening }) => await listening))
      for (const worker of [first, ...others]) this.#replaceWhenEnded(worker)
    } catch (error) {
      if (!this.#isEnding) await this.#endWorkers('start failed')
      if (!this.#isEnding) throw error
    }
    // After a signal, #onSignal ends the process.
    if (!this.#isEnding) {
      this.#log.info({ host: HOST, port, workers: WEB_CONCURRENCY }, 'all workers are listening')
    }
  }

  get #isEnding (): boolean {
    return this.#ending.signal.aborted
  }

  #fork (): WorkerProcess {
    const worker = new WorkerProcess({
      type: 'start',
      config: this.#config,
      measured: this.#config.OPS_PORT !== undefined,
      graceMs: GRACE_MS
    })
    this.#workers.add(worker)
    worker.ended.then(() => {
      this.#workers.delete(worker)
      this.#metrics.retire(worker, !this.#isEnding)
    })
    return worker
  }

  /** Replaces a worker each time it crashes, until the primary shuts down. */
  async #replaceWhenEnded (worker: WorkerProcess): Promise<void> {
    for (let delayMs = FIRST_DELAY_MS;; delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)) {
      const end = await worker.ended
      if (this.#isEnding) return
      if (performance.now() - worker.startedAt >= LONG_LIFE_MS) delayMs = FIRST_DELAY_MS
      this.#log.error(
        { worker: worker.pid, ...end, delayMs },
        'a worker crashed and will be replaced after a delay'
      )
      let next: WorkerProcess | undefined
      while (next === undefined) {
        await sleep(delayMs, undefined, { signal: this.#ending.signal }).catch(() => {})
        if (this.#isEnding) return
        try {
          next = this.#fork()
        } catch (error) {
          delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)
          this.#log.error(
            { err: error, delayMs },
            'a worker could not be created, retrying after a delay'
          )
        }
      }
      const { pid, listening } = next
      listening.then(() => this.#log.info({ worker: pid }, 'the replacement worker is listening'), () => {})
      worker = next
    }
  }

  #onSignal (signal: NodeJS.Signals): void {
    if (this.#isEnding) {
      for (const worker of this.#workers) worker.end(signal)
      return
    }
    this.#ending.abort()
    this.#log.info({ signal }, 'shutting down all workers')
    this.#endWorkers(signal).then((ends) => {
      this.#log.info({ signal }, 'closed')
      process.exit(ends.every(isOrderly) ? 0 : 1)
    })
  }

  /** Shuts down all workers at once, and kills those that do not end in time. */
  async #endWorkers (signal: string): Promise<WorkerEnd[]> {
    const workers = [...this.#workers]
    for (const worker of workers) worker.end(signal)
    const timer = setTimeout(() => {
      this.#log.error(`killing workers that have not ended ${GRACE_MS} ms after SHUTDOWN_TIMEOUT_MS`)
      for (const worker of this.#workers) worker.kill()
    }, this.#config.SHUTDOWN_TIMEOUT_MS + GRACE_MS)
    const ends = await Promise.all(workers.map(async ({ ended }) => await ended))
    clearTimeout(timer) // after a failed start, it would keep the process running
    return ends
  }
}

/** A worker that is still starting is killed by a signal to the process group, which counts as orderly. */
const isOrderly = ({ code, signal }: WorkerEnd): boolean =>
  code === 0 || signal === 'SIGINT' || signal === 'SIGTERM'

/**
 * The sums of all workers' metrics. They include the counts of workers that have ended: Prometheus would take
 * a sum that falls for a restart, and count what the other workers have reported before once more.
 */
class ClusterMetrics {
  readonly #workers: ReadonlySet<WorkerProcess>
  readonly #own = new Registry()
  #restarts = 0
  /** The sums of the counters and histograms of workers that have ended. */
  #ended: MetricsJson = []
  #folding = Promise.resolve()

  /** @param workers the running workers; the caller adds and removes them */
  constructor (workers: ReadonlySet<WorkerProcess>) {
    this.#workers = workers
    addMetrics(this.#own, {
      landfall_workers: [
        'Workers that are listening',
        () => [...workers].filter(({ isListening }) => isListening).length
      ],
      landfall_worker_restarts_total: [
        'Workers that exited unexpectedly and were replaced',
        () => this.#restarts
      ]
    })
  }

  /** Keeps the counts of a worker that has ended. */
  retire (worker: WorkerProcess, hasCrashed: boolean): void {
    if (hasCrashed) this.#restarts++
    this.#folding = this.#folding.then(async () => {
      const counted = worker.metrics.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
      this.#ended = await AggregatorRegistry.aggregate([this.#ended, counted]).getMetricsAsJSON()
    }).catch(() => {}) // the loss of one worker's counts must not stop the primary
  }

  /** Returns all metrics in Prometheus' text format, and a slow worker's metrics of the last time. */
  async collect (): Promise<string> {
    await Promise.all([...this.#workers].map(async (worker) => await worker.updateMetrics()))
    await this.#folding
    const all = [...[...this.#workers].map(({ metrics }) => metrics), this.#ended]
    return await AggregatorRegistry.aggregate([...all, await this.#own.getMetricsAsJSON()]).metrics()
  }
}
