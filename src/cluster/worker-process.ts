import cluster, { type Worker } from 'node:cluster'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { MetricsJson, PrimaryMessage, WorkerMessage } from './worker.ts'

/** How a worker ended; `reason` is what it said of a start that failed. */
export interface WorkerEnd {
  readonly code: number | null
  readonly signal: string | null
  readonly reason: string | undefined
}

/** A worker that doesn't say in time what it has measured, in milliseconds; scrapers usually wait for 10 s. */
const METRICS_TIMEOUT_MS = 2000

/** A worker as the primary sees it, from its fork to its end. */
export class WorkerProcess {
  readonly startedAt = performance.now()
  /** The port on which it listens; rejects, in a line for whoever runs the service, when it ends before. */
  readonly listening: Promise<number>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
  readonly #worker: Worker
  readonly #asked = new Map<number, (metrics: MetricsJson | undefined) => void>()
  #lastId = 0
  #hears = false
  #toEnd: string | undefined
  #isListening = false
  #reason: string | undefined

  /** @param start the settings and what goes with them */
  constructor (start: Extract<PrimaryMessage, { type: 'start' }>) {
    cluster.setupPrimary({ exec: fileURLToPath(new URL(`./worker${extname(import.meta.url)}`, import.meta.url)), args: [] })
    const worker = cluster.fork()
    this.#worker = worker
    dropWithWorker(worker)
    this.ended = new Promise((resolve) => {
      worker.once('exit', (code: number | null, signal: string | null) => resolve({ code, signal, reason: this.#reason }))
      // A process that couldn't be made has no exit; what can't be sent to one that is ending doesn't matter.
      worker.on('error', (error) => {
        if (worker.process.pid === undefined) resolve({ code: null, signal: null, reason: error.message })
      })
    })
    this.listening = new Promise((resolve, reject) => {
      worker.on('message', (message: WorkerMessage) => {
        if (message.type === 'hears') {
          this.#hears = true
          this.#send(this.#toEnd === undefined ? start : { type: 'end', signal: this.#toEnd })
        } else if (message.type === 'listening') {
          this.#isListening = true
          resolve(message.port)
        } else if (message.type === 'failed') {
          this.#reason = message.reason
        } else if (message.type === 'metrics') {
          this.#asked.get(message.id)?.(message.metrics)
        }
      })
      this.ended.then((end) => reject(new Error(end.reason ?? `a worker ended while it started (${end.signal ?? `exit code ${end.code}`})`)))
    })
    this.listening.catch(() => {}) // not everybody waits for it
    this.ended.then(() => {
      this.#isListening = false
      for (const resolve of this.#asked.values()) resolve(undefined)
    })
  }

  get pid (): number | undefined {
    return this.#worker.process.pid
  }

  get isListening (): boolean {
    return this.#isListening
  }

  /** Tells it of a signal of the primary: the first one closes it in order, the next cuts off what is still in flight. */
  end (signal: string): void {
    if (this.#hears) this.#send({ type: 'end', signal })
    else this.#toEnd = signal
  }

  kill (): void {
    this.#worker.process.kill('SIGKILL')
  }

  /** What it has measured; undefined when it doesn't say so in time. */
  async metrics (): Promise<MetricsJson | undefined> {
    const id = ++this.#lastId
    let timer: NodeJS.Timeout | undefined
    const answer = new Promise<MetricsJson | undefined>((resolve) => {
      this.#asked.set(id, resolve)
      timer = setTimeout(() => resolve(undefined), METRICS_TIMEOUT_MS)
    })
    this.#send({ type: 'metrics', id })
    try {
      return await answer
    } finally {
      clearTimeout(timer)
      this.#asked.delete(id)
    }
  }

  #send (message: PrimaryMessage): void {
    if (this.#worker.isConnected()) this.#worker.send(message)
  }
}

/** The worker that was given a connection last: one that refuses it because it closes leaves it to another. */
const givenTo = new WeakMap<object, Worker>()

/**
 * Closes the connection that a worker had been handed and not yet taken when it died. Node would keep it open for ever,
 * and its client waiting. There is one at most: the next is handed out when the worker has said that it took the last.
 */
function dropWithWorker (worker: Worker): void {
  const child = worker.process
  const send = child.send.bind(child) as (...args: unknown[]) => boolean
  let last: { close?: () => void } | undefined
  child.send = (message: unknown, handle?: unknown, ...rest: unknown[]) => {
    if (typeof handle === 'object' && handle !== null && 'close' in handle) {
      last = handle as typeof last
      givenTo.set(handle, worker)
    }
    return send(message, handle, ...rest)
  }
  // Closing it again, when the worker did take it, does nothing.
  worker.once('exit', () => {
    if (last !== undefined && givenTo.get(last) === worker) last.close?.()
  })
}
