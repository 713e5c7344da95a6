import { usageOf } from '../../../bench/machine.ts'
import { median } from '../../../bench/statistics.ts'

// Measures whether the memory use of a service grows under load.

/** Growth from the second quarter to the last one that is allowed, because heap size fluctuates. */
const FLAT_SHARE = 0.1
const FLAT_MB = 16

export interface MemoryUse {
  /** Medians of the second and the last quarter, in MB; undefined without /proc. */
  readonly before: number | undefined
  readonly after: number | undefined
  readonly isFlat: boolean
}

/**
 * Samples a process' memory (RSS) while an action runs. The first quarter doesn't count, because heaps and
 * caches fill up then.
 *
 * @param seconds duration of the action
 * @param progress called with progress lines
 */
export async function memoryDuring (
  pid: number,
  seconds: number,
  progress: (line: string) => void,
  action: () => Promise<unknown>
): Promise<MemoryUse> {
  const samples: number[] = []
  const started = performance.now()
  let printed = started
  const sampler = setInterval(() => {
    const usage = usageOf(pid)
    if (usage === undefined) return
    samples.push(usage.rssBytes / 2 ** 20)
    if (performance.now() - printed < 10_000) return
    printed = performance.now()
    progress(`${Math.round((printed - started) / 1000)} of ${seconds} s: RSS ${
      Math.round(samples.at(-1) as number)
    } MB`)
  }, Math.min(1000, seconds * 1000 / 40))
  await action().finally(() => clearInterval(sampler))
  const quarter = (number: 2 | 4) =>
    median(samples.slice(
      Math.floor(samples.length * (number - 1) / 4),
      Math.floor(samples.length * number / 4)
    ))
  const [before, after] = [quarter(2), quarter(4)]
  if (before !== undefined && after !== undefined) {
    progress(`RSS ${before.toFixed(0)} MB in the second quarter, ${after.toFixed(0)} MB in the last`)
  }
  return {
    before,
    after,
    isFlat: before === undefined || after === undefined ||
      after - before <= Math.max(FLAT_MB, FLAT_SHARE * before)
  }
}
