import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../config.ts'
import { createLogger } from '../logger.ts'
import { listenForMetrics } from '../plugins/metrics.ts'
import { ClusterMetrics } from './metrics.ts'
import { WorkerProcess, type WorkerEnd } from './worker-process.ts'

// The process above the workers: it starts them, takes connections and hands them out (node:cluster), replaces workers
// that end by themselves, and ends them all together. It serves nothing but the metrics.

/** How long after SHUTDOWN_TIMEOUT_MS a worker may take to end before it is killed, in milliseconds. */
const GRACE_MS = 5000
/** The wait before a worker is replaced, in milliseconds: doubled each time, until one has lived for long. */
const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 30_000
const LONG_LIFE_MS = 60_000

/**
 * Runs WEB_CONCURRENCY workers until SIGTERM or SIGINT, and ends the process then.
 *
 * @returns when all listen
 * @throws {Error} when one of them can't start; none is left then, and `message` is one line for whoever runs it
 */
export async function runWorkers (config: Config): Promise<void> {
  await new Primary(config).start()
}

class Primary {
  #config: Config
  /** On which all listen: PORT, or the one that stands for 0. */
  #port = 0
  readonly #log: FastifyBaseLogger
  readonly #workers = new Set<WorkerProcess>()
  readonly #metrics = new ClusterMetrics(this.#workers)
  readonly #ending = new AbortController()

  constructor (config: Config) {
    this.#config = config
    // As the workers have it: its lines stand between theirs.
    this.#log = createLogger(config)
  }

  async start (): Promise<void> {
    const { HOST, OPS_PORT, WEB_CONCURRENCY } = this.#config
    if (OPS_PORT !== undefined) await listenForMetrics({ host: HOST, port: OPS_PORT, log: this.#log }, async () => await this.#metrics.collect())
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => { this.#onSignal(signal) })

    try {
      // The first one alone: it migrates for all, and what keeps it from starting is said once.
      const first = this.#fork()
      this.#port = await first.listening
      const others = Array.from({ length: this.#isEnding ? 0 : WEB_CONCURRENCY - 1 }, () => this.#fork())
      await Promise.all(others.map(async ({ listening }) => await listening))
      for (const worker of [first, ...others]) this.#keep(worker)
    } catch (error) {
      if (!this.#isEnding) await this.#endWorkers('the start failed')
      if (!this.#isEnding) throw error
    }
    // Ended meanwhile, it is no start that failed: #onSignal ends the process.
    if (!this.#isEnding) this.#log.info({ host: HOST, port: this.#port, workers: WEB_CONCURRENCY }, 'all workers listen')
  }

  get #isEnding (): boolean {
    return this.#ending.signal.aborted
  }

  #fork (): WorkerProcess {
    const worker = new WorkerProcess({ type: 'start', config: this.#config, measured: this.#config.OPS_PORT !== undefined, graceMs: GRACE_MS })
    this.#workers.add(worker)
    worker.ended.then(() => this.#workers.delete(worker))
    return worker
  }

  /** Replaces a worker, and those that come after it, whenever it ends by itself. */
  async #keep (worker: WorkerProcess): Promise<void> {
    for (let delayMs = FIRST_DELAY_MS; ; delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)) {
      const end = await worker.ended
      if (this.#isEnding) return
      if (performance.now() - worker.startedAt >= LONG_LIFE_MS) delayMs = FIRST_DELAY_MS
      this.#log.error({ worker: worker.pid, ...end, delayMs }, 'a worker ended by itself, another one takes its place after a delay')
      this.#metrics.retire(worker)
      let next: WorkerProcess | undefined
      while (next === undefined) {
        await sleep(delayMs, undefined, { signal: this.#ending.signal }).catch(() => {})
        if (this.#isEnding) return
        // PORT=0 means the port of the others, as long as there is one.
        if (this.#workers.size === 0) this.#config = { ...this.#config, PORT: this.#port }
        try {
          next = this.#fork()
        } catch (error) {
          delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)
          this.#log.error({ err: error, delayMs }, 'no worker could be made, the next try comes after a delay')
        }
      }
      const { pid, listening } = next
      listening.then(() => this.#log.info({ worker: pid }, 'a worker has taken the place'), () => {})
      worker = next
    }
  }

  #onSignal (signal: NodeJS.Signals): void {
    if (this.#isEnding) {
      for (const worker of this.#workers) worker.end(signal)
      return
    }
    this.#ending.abort()
    this.#log.info({ signal }, 'closing all workers')
    this.#endWorkers(signal).then((ends) => process.exit(ends.every(inOrder) ? 0 : 1))
  }

  /** Closes all workers at once, and kills those that don't end in time. */
  async #endWorkers (signal: string): Promise<WorkerEnd[]> {
    const workers = [...this.#workers]
    for (const worker of workers) worker.end(signal)
    const timer = setTimeout(() => {
      this.#log.error(`workers that have not ended ${GRACE_MS} ms after SHUTDOWN_TIMEOUT_MS are killed`)
      for (const worker of this.#workers) worker.kill()
    }, this.#config.SHUTDOWN_TIMEOUT_MS + GRACE_MS)
    const ends = await Promise.all(workers.map(async ({ ended }) => await ended))
    clearTimeout(timer)
    return ends
  }
}

/** The signals are those of the whole group, which a worker heeds only before it has anything to close. */
const inOrder = ({ code, signal }: WorkerEnd): boolean => code === 0 || signal === 'SIGINT' || signal === 'SIGTERM'
