import { setTimeout as sleep } from 'node:timers/promises'

type Nothing = false | undefined

/**
 * Waits until `condition` gives something, which it returns. It fails long after any machine would have got there, with
 * the name of what was waited for; what takes longer by nature says its own `timeoutMs`.
 */
export async function until<T> (condition: () => T | Nothing | Promise<T | Nothing>, what = 'what the test waits for', timeoutMs = 60_000): Promise<T> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value !== undefined && value !== false) return value
    if (performance.now() > end) throw new Error(`still not: ${what}`)
    await sleep(20)
  }
}
