// Statistics over rounds. Single measurements on a shared machine are unreliable, medians less so.

export interface Spread {
  readonly median: number
  readonly lower: number
  readonly upper: number
}

/** Returns median and quartiles with linear interpolation; undefined without values. */
export function spread (values: readonly (number | undefined)[]): Spread | undefined {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b)
  if (sorted.length === 0) return undefined
  const quantile = (q: number): number => {
    const position = (sorted.length - 1) * q
    const below = sorted[Math.floor(position)] as number
    const above = sorted[Math.ceil(position)] as number
    return below + (above - below) * (position - Math.floor(position))
  }
  return { median: quantile(0.5), lower: quantile(0.25), upper: quantile(0.75) }
}

export const median = (values: readonly (number | undefined)[]): number | undefined => spread(values)?.median

/**
 * Returns random numbers from 0 to 1, the same in every run (mulberry32 by Tommy Ettinger, public domain).
 */
export function seededRandom (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6D2B79F5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/**
 * Draws indexes below `count` from a Zipf distribution with s = 1: the k-th has a probability in proportion
 * to 1/k.
 */
export function zipfDraws (count: number, draws: number, random: () => number): Uint32Array {
  const cumulative = new Float64Array(count)
  let sum = 0
  for (let rank = 1; rank <= count; rank++) cumulative[rank - 1] = sum += 1 / rank
  return Uint32Array.from({ length: draws }, () => {
    const target = random() * sum
    let low = 0
    let high = count - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((cumulative[middle] as number) < target) low = middle + 1
      else high = middle
    }
    return low
  })
}
