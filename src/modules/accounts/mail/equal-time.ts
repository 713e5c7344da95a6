import { setTimeout as sleep } from 'node:timers/promises'

/** Much longer than the work that a known address causes. */
const STEP_MS = 250

/**
 * Waits until the action has taken 250 ms, or a multiple of that, also if it fails. So the time of an answer
 * doesn't show how much there was to do.
 *
 * @throws the error of the action
 */
export async function inEqualTime<T> (action: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  try {
    return await action()
  } finally {
    const elapsed = performance.now() - startedAt
    await sleep(Math.ceil(elapsed / STEP_MS) * STEP_MS - elapsed)
  }
}
