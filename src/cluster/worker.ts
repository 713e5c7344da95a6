import '../fast-ticks.ts'
import cluster from 'node:cluster'
import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'

// The entry of a worker: one process of the service, which does what the primary tells it.

/** What the primary tells a worker. */
export type PrimaryMessage =
  { readonly type: 'start', readonly config: Config, readonly measured: boolean, readonly graceMs: number } |
  /** Sent for each signal that the primary gets: the first closes in order, the second cuts off. */
  { readonly type: 'end', readonly signal: string } |
  { readonly type: 'metrics', readonly id: number }

/** What a worker tells the primary. */
export type WorkerMessage =
  /** It hears what it is told; what is sent before is lost, as Node's own listener takes it. */
  { readonly type: 'hears' } |
  { readonly type: 'listening', readonly port: number } |
  { readonly type: 'failed', readonly reason: string } |
  { readonly type: 'metrics', readonly id: number, readonly metrics: MetricsJson }

export type MetricsJson = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

// Ctrl-C in a terminal and service managers signal the whole group: the primary decides what it means. This stands
// before everything slow, which is why the service is imported later.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})

/** What ends this process; before it has anything to close, at once. */
let close = (_signal: string): void => process.exit(0)
let ending = false
let registry: Registry | undefined

process.on('message', (message: PrimaryMessage) => {
  if (message.type === 'start') start(message).catch(fail)
  else if (message.type === 'end') end(message.signal)
  else if (message.type === 'metrics') sendMetrics(message.id).catch(() => {}) // the primary goes on without them
})

send({ type: 'hears' })

function end (signal: string): void {
  ending = true
  close(signal)
}

async function start ({ config, measured, graceMs }: Extract<PrimaryMessage, { type: 'start' }>): Promise<void> {
  const [{ serve }, { measureProcess }] = await Promise.all([import('../serve.ts'), import('../plugins/metrics.ts')])
  const { app } = await serve({ ...config, OPS_PORT: undefined }, (serving) => {
    close = serving.end
    cluster.worker?.once('disconnect', () => {
      // Else Node ends the process at once, requests in flight and all.
      if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true
      setTimeout(() => process.exit(1), config.SHUTDOWN_TIMEOUT_MS + graceMs)
      if (!ending) end('the primary is gone')
    })
  })
  registry = app.metrics
  if (measured) measureProcess(registry)
  const address = app.server.address()
  send({ type: 'listening', port: typeof address === 'object' && address !== null ? address.port : config.PORT })
}

async function sendMetrics (id: number): Promise<void> {
  if (registry !== undefined) send({ type: 'metrics', id, metrics: await registry.getMetricsAsJSON() })
}

function fail (error: unknown): void {
  if (ending) return // it can't listen because it closes, which ends it
  const leave = () => process.exit(1)
  if (process.connected) process.send?.({ type: 'failed', reason: error instanceof Error ? error.message : String(error) } satisfies WorkerMessage, leave)
  else leave()
}

function send (message: WorkerMessage): void {
  // An error (the primary has just gone) is followed by 'disconnect'.
  if (process.connected) process.send?.(message, () => {})
}
