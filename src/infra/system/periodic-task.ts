import type { FastifyInstance } from 'fastify'

export interface PeriodicTaskOptions {
  readonly intervalMs: number
  /** Time until an additional first run, for services that restart often. */
  readonly extraAfterMs?: number
}

/** Runs an action, and renews its claim in the meantime. A renewal that fails is tried again. */
export async function whileRenewing<T> (
  renew: () => Promise<unknown>,
  intervalMs: number,
  action: () => Promise<T>
): Promise<T> {
  const timer = setInterval(() => {
    renew().catch(() => {})
  }, intervalMs)
  return await action().finally(() => clearInterval(timer))
}

/**
 * Runs a task after each interval until the app closes. Runs never overlap, and at most one waits. Closing
 * waits for the one under way.
 *
 * @param task must not reject; `signal` asks it to end early
 * @returns runs the task now, or after the run that is under way
 */
export function runPeriodically (
  app: FastifyInstance,
  { intervalMs, extraAfterMs }: PeriodicTaskOptions,
  task: (signal: AbortSignal) => Promise<void>
): () => Promise<void> {
  const stop = new AbortController()
  let running = Promise.resolve()
  let isWaiting = false
  const run = () => {
    if (isWaiting) return running // one run is enough for all that ask before it starts
    isWaiting = true
    running = running.then(async () => {
      isWaiting = false
      if (!stop.signal.aborted) await task(stop.signal)
    })
    return running
  }
  const timers = [
    setInterval(run, intervalMs),
    ...extraAfterMs === undefined ? [] : [setTimeout(run, extraAfterMs)]
  ]
  for (const timer of timers) timer.unref()
  app.addHook('onClose', async () => {
    for (const timer of timers) clearTimeout(timer)
    stop.abort()
    await running
  })
  return run
}
