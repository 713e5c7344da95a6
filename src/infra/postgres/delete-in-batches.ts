/** The most rows that one statement deletes. It takes a small part of the statement timeout. */
export const BATCH_SIZE = 1000

/** A table whose rows are deleted by their age. */
export interface AgingRows<Row> {
  /** Finds rows in the order of their times, at most `limit`. */
  readonly find: (times: { readonly gte: Date, readonly lt: Date }, limit: number) => Promise<Row[]>
  readonly timeOf: (row: Row) => Date | null
  readonly remove: (rows: readonly Row[]) => Promise<unknown>
}

/**
 * Deletes rows from before a time, in batches. Each batch goes on after the last row, so that it doesn't read
 * what earlier ones deleted.
 */
export async function deleteInBatches<Row> (
  before: Date,
  { find, timeOf, remove }: AgingRows<Row>,
  signal?: AbortSignal
): Promise<void> {
  for (let from = new Date(0); signal?.aborted !== true;) {
    const rows = await find({ gte: from, lt: before }, BATCH_SIZE)
    await remove(rows)
    const last = rows.at(-1)
    if (last === undefined || rows.length < BATCH_SIZE) return
    from = timeOf(last) ?? before
  }
}
