import { usageOf } from '../../bench/machine.ts'
import { median } from '../../bench/statistics.ts'

// Whether the memory of a service grows while it is kept busy.

/** Growth from the second quarter of the time to the last that counts as none: a heap breathes. */
const FLAT_SHARE = 0.1
const FLAT_MB = 16

export interface MemoryUse {
  /** Medians of the second and the last quarter, in MB; undefined where the system doesn't tell. */
  readonly before: number | undefined
  readonly after: number | undefined
  readonly isFlat: boolean
}

/**
 * Looks at a process' memory (RSS) while something is done for some time. The first quarter of it is not judged: heaps
 * and caches fill up then.
 *
 * @param seconds how long it is going to last
 * @param progress called with a line now and then
 */
export async function memoryDuring (pid: number, seconds: number, progress: (line: string) => void, action: () => Promise<unknown>): Promise<MemoryUse> {
  const samples: number[] = []
  const started = performance.now()
  let printed = started
  const sampler = setInterval(() => {
    const usage = usageOf(pid)
    if (usage === undefined) return
    samples.push(usage.rssBytes / 2 ** 20)
    if (performance.now() - printed < 10_000) return
    printed = performance.now()
    progress(`${Math.round((printed - started) / 1000)} of ${seconds} s: RSS ${Math.round(samples.at(-1) as number)} MB`)
  }, Math.min(1000, seconds * 1000 / 40))
  await action().finally(() => clearInterval(sampler))
  const quarter = (number: 2 | 4) => median(samples.slice(Math.floor(samples.length * (number - 1) / 4), Math.floor(samples.length * number / 4)))
  const [before, after] = [quarter(2), quarter(4)]
  if (before !== undefined && after !== undefined) progress(`RSS ${before.toFixed(0)} MB in the second quarter, ${after.toFixed(0)} MB in the last`)
  return { before, after, isFlat: before === undefined || after === undefined || after - before <= Math.max(FLAT_MB, FLAT_SHARE * before) }
}
