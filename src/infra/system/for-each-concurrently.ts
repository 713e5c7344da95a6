/** Calls `action` for each item, for up to `concurrency` items at once. Starts no more after a failure. */
export async function forEachConcurrently<T> (
  items: AsyncIterable<T> | Iterable<T>,
  concurrency: number,
  action: (item: T) => Promise<void>
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  const failures: unknown[] = []
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (failures.length === 0) {
      try {
        const { done, value } = await iterator.next()
        if (done === true) return
        await action(value)
      } catch (error) {
        failures.push(error)
      }
    }
  }))
  if (failures.length > 0) throw failures[0]
}
