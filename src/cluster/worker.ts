import '../infra/system/v8-tuning.ts'
import cluster from 'node:cluster'
import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'

// The entry point of a worker: one process of the service, controlled by the primary.

/**
 * Messages from the primary to a worker. It sends `end` for each signal: the first starts the shutdown, the
 * second ends requests in flight.
 */
export type PrimaryMessage =
  | { readonly type: 'start', readonly config: Config, readonly measured: boolean, readonly graceMs: number }
  | { readonly type: 'end', readonly signal: string }
  | { readonly type: 'metrics' }

/** Messages from a worker to the primary. Before `ready`, messages to the worker are lost. */
export type WorkerMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'listening', readonly port: number }
  | { readonly type: 'failed', readonly reason: string }
  | { readonly type: 'metrics', readonly metrics: MetricsJson }

export type MetricsJson = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

// Ctrl-C and service managers signal the whole process group, but only the primary handles the signal. These
// listeners must be added before the slow imports, so the service itself is imported later.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})

/** Ends this process. Before the service runs, an exit is enough. */
let close = (_signal: string): void => process.exit(0)
let ending = false
let registry: Registry | undefined

process.on('message', (message: PrimaryMessage) => {
  if (message.type === 'start') start(message).catch(fail)
  else if (message.type === 'end') end(message.signal)
  // Without a response, the primary uses the last metrics of this worker.
  else if (message.type === 'metrics') sendMetrics().catch(() => {})
})

send({ type: 'ready' })

function end (signal: string): void {
  ending = true
  close(signal)
}

async function start (
  { config, measured, graceMs }: Extract<PrimaryMessage, { type: 'start' }>
): Promise<void> {
  const [{ serve }, { measureProcess }] = await Promise.all([
    import('../server.ts'),
    import('../infra/telemetry/metrics.ts')
  ])
  const { app } = await serve({ ...config, OPS_PORT: undefined }, (serving) => {
    close = serving.end
    cluster.worker?.once('disconnect', () => {
      // Otherwise Node ends the process at once, even with requests in flight.
      if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true
      setTimeout(() => process.exit(1), config.SHUTDOWN_TIMEOUT_MS + graceMs)
      if (!ending) end('primary lost')
    })
  })
  registry = app.metrics
  if (measured) measureProcess(registry)
  const address = app.server.address()
  send({
    type: 'listening',
    port: typeof address === 'object' && address !== null ? address.port : config.PORT
  })
}

async function sendMetrics (): Promise<void> {
  if (registry !== undefined) send({ type: 'metrics', metrics: await registry.getMetricsAsJSON() })
}

function fail (error: unknown): void {
  if (ending) return // the start failed because of the shutdown
  const reason = error instanceof Error ? error.message : String(error)
  send({ type: 'failed', reason }, () => process.exit(1))
}

/** @param done is called when the message was sent, or when there is no primary any more */
function send (message: WorkerMessage, done = (): void => {}): void {
  // If the primary has just ended, 'disconnect' follows and ends this process.
  if (process.connected) process.send?.(message, done)
  else done()
}
