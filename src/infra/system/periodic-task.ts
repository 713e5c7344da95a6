import type { FastifyInstance } from 'fastify'

/**
 * Runs a task after each interval until the app closes. Runs never overlap, and closing waits for the one
 * under way.
 *
 * @param task must not reject; `signal` asks it to end early
 * @returns runs the task now, or after the run that is under way
 */
export function runPeriodically (
  app: FastifyInstance,
  intervalMs: number,
  task: (signal: AbortSignal) => Promise<void>
): () => Promise<void> {
  const stop = new AbortController()
  let running = Promise.resolve()
  const run = () => {
    running = running.then(async () => {
      if (!stop.signal.aborted) await task(stop.signal)
    })
    return running
  }
  const timer = setInterval(run, intervalMs).unref()
  app.addHook('onClose', async () => {
    clearInterval(timer)
    stop.abort()
    await running
  })
  return run
}
