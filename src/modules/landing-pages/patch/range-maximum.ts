/** Finds the largest of consecutive numbers in logarithmic time, with a segment tree (Bentley, 1977). */
export class RangeMaximum {
  readonly #count: number
  /** The numbers, from `count`, and before them, at n, the larger one of those at 2n and 2n + 1. */
  readonly #tree: Int32Array

  /** @param numberAt returns the number at an index, at least 0 */
  constructor (count: number, numberAt: (index: number) => number) {
    const tree = new Int32Array(2 * count)
    for (let index = 0; index < count; index++) tree[count + index] = numberAt(index)
    for (let at = count - 1; at > 0; at--) tree[at] = larger(tree, 2 * at, 2 * at + 1)
    this.#count = count
    this.#tree = tree
  }

  /** @returns the largest number from the index `from` up to, but without, `to`; 0 if there is none */
  find (from: number, to: number): number {
    const tree = this.#tree
    let maximum = 0
    for (let low = from + this.#count, high = to + this.#count; low < high; low >>= 1, high >>= 1) {
      if (low % 2 === 1) maximum = Math.max(maximum, tree[low++] as number)
      if (high % 2 === 1) maximum = Math.max(maximum, tree[--high] as number)
    }
    return maximum
  }
}

const larger = (tree: Int32Array, a: number, b: number): number =>
  Math.max(tree[a] as number, tree[b] as number)
