export interface FirstItems<Item> {
  readonly items: readonly Item[]
  readonly hasMore: boolean
}

/** Returns the first items of a list that is loaded part by part, and whether there are more. */
export async function takeFirst<Item> (list: AsyncIterable<Item>, count: number): Promise<FirstItems<Item>> {
  const items: Item[] = []
  for await (const item of list) {
    if (items.length === count) return { items, hasMore: true }
    items.push(item)
  }
  return { items, hasMore: false }
}
