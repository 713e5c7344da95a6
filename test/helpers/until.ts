import { setTimeout as sleep } from 'node:timers/promises'

// Waits for a condition instead of a fixed time, so that tests also pass on slow machines.

type Nothing = false | undefined

/** Pauses between two looks: a part of the time so far, so that a long wait leaves the cores to others. */
const PART = 1 / 20
const MIN_PAUSE_MS = 20
const MAX_PAUSE_MS = 500

/**
 * Waits until `condition` returns something other than false or undefined.
 *
 * @param what description of the condition, for the error
 * @param timeoutMs limit, much longer than a slow machine needs
 * @returns what `condition` returned
 */
export async function until<T> (
  condition: () => T | Nothing | Promise<T | Nothing>,
  what = 'the condition',
  timeoutMs = 60_000
): Promise<T> {
  const started = performance.now()
  for (;;) {
    const value = await condition()
    if (value !== undefined && value !== false) return value
    const elapsedMs = performance.now() - started
    if (elapsedMs > timeoutMs) throw new Error(`not in time: ${what}`)
    await sleep(Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, elapsedMs * PART)))
  }
}
