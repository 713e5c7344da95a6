import { setTimeout as sleep } from 'node:timers/promises'

// Waits for a condition instead of a fixed time, so that tests also pass on slow machines.

type Nothing = false | undefined

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
  const end = performance.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value !== undefined && value !== false) return value
    if (performance.now() > end) throw new Error(`not in time: ${what}`)
    await sleep(20)
  }
}
