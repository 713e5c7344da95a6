import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MetricsJson, PrimaryMessage, WorkerMessage } from './worker.ts'

/** How a worker ended. `reason` is set when it could not start. */
export interface WorkerEnd {
  readonly code: number | null
  readonly signal: string | null
  readonly reason: string | undefined
}

/** The longest wait for the metrics of a worker, in milliseconds. Scrapers usually wait for 10 s. */
const METRICS_TIMEOUT_MS = 2000

/** A worker as the primary sees it, from its fork to its end. */
export class WorkerProcess {
  readonly startedAt = performance.now()
  /** The port on which it listens. Rejects with a one-line reason when the worker ends before it listens. */
  readonly listening: Promise<number>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
  readonly #worker: Worker
  #metrics: MetricsJson = []
  #isReady = false
  #pendingSignal: string | undefined
  #isListening = false
  #reason: string | undefined

  constructor (start: Extract<PrimaryMessage, { type: 'start' }>) {
    cluster.setupPrimary({
      exec: fileURLToPath(new URL(`./worker${extname(import.meta.url)}`, import.meta.url)),
      args: []
    })
    const worker = cluster.fork()
    this.#worker = worker
    closeUnacceptedConnection(worker)
    this.ended = new Promise((resolve) => {
      worker.once(
        'exit',
        (code: number | null, signal: string | null) => resolve({ code, signal, reason: this.#reason })
      )
      // Only a process that could not be created has no pid. It emits an 'error', but no 'exit'.
      worker.on('error', (error) => {
        if (worker.process.pid === undefined) resolve({ code: null, signal: null, reason: error.message })
      })
    })
    this.listening = new Promise((resolve, reject) => {
      worker.on('message', (message: WorkerMessage) => {
        if (message.type === 'ready') {
          this.#isReady = true
          this.#send(this.#pendingSignal === undefined ? start : { type: 'end', signal: this.#pendingSignal })
        } else if (message.type === 'listening') {
          this.#isListening = true
          resolve(message.port)
        } else if (message.type === 'failed') {
          this.#reason = message.reason
        } else if (message.type === 'metrics') {
          this.#metrics = message.metrics
        }
      })
      this.ended.then((end) =>
        reject(new Error(end.reason ??
          `a worker ended before it listened (${end.signal ?? `exit code ${end.code}`})`))
      )
    })
    this.listening.catch(() => {}) // the promise of a replacement is not always awaited
    this.ended.then(() => {
      this.#isListening = false
    })
  }

  get pid (): number | undefined {
    return this.#worker.process.pid
  }

  get isListening (): boolean {
    return this.#isListening
  }

  /**
   * Forwards a signal that the primary received. The first signal starts the shutdown, the second ends
   * requests in flight.
   */
  end (signal: string): void {
    if (this.#isReady) this.#send({ type: 'end', signal })
    else this.#pendingSignal = signal
  }

  kill (): void {
    this.#worker.process.kill('SIGKILL')
  }

  /** The metrics that the worker has sent last. */
  get metrics (): MetricsJson {
    return this.#metrics
  }

  /** Asks the worker for its metrics, and waits until they have arrived. Never rejects. */
  async updateMetrics (): Promise<void> {
    if (!this.#isListening) return
    const response = once(this.#worker, 'message', { signal: AbortSignal.timeout(METRICS_TIMEOUT_MS) })
    this.#send({ type: 'metrics' })
    await Promise.race([response.catch(() => {}), this.ended])
  }

  #send (message: PrimaryMessage): void {
    if (this.#worker.isConnected()) this.#worker.send(message)
  }
}

/** The last worker that received each connection. A worker that shuts down returns it to the primary. */
const lastReceiver = new WeakMap<object, Worker>()

/**
 * Closes the connection that a worker had received but not accepted when it crashed. Otherwise Node would
 * keep the connection open, and its client would wait forever. There is at most one such connection, because
 * Node sends a worker the next connection only after it has accepted the last one.
 */
function closeUnacceptedConnection (worker: Worker): void {
  const child = worker.process
  const send = child.send.bind(child) as (...args: unknown[]) => boolean
  let last: { close?: () => void } | undefined
  child.send = (message: unknown, handle?: unknown, ...rest: unknown[]) => {
    if (typeof handle === 'object' && handle !== null && 'close' in handle) {
      last = handle as typeof last
      lastReceiver.set(handle, worker)
    }
    return send(message, handle, ...rest)
  }
  // If the worker has accepted the connection, closing the primary's copy again has no effect.
  worker.once('exit', () => {
    if (last !== undefined && lastReceiver.get(last) === worker) last.close?.()
  })
}
