/** The most rows that one statement deletes. It takes a small part of the statement timeout. */
export const BATCH_SIZE = 1000

/** What Prisma's clients of all tables can do. */
interface Table {
  findFirst(query: object): Promise<object | null>
  deleteMany(query: object): Promise<{ readonly count: number }>
}

/** Deletes rows in batches. @returns how many */
export async function deleteInBatches (table: Table, where: object, signal?: AbortSignal): Promise<number> {
  let sum = 0
  for (let count = BATCH_SIZE; count === BATCH_SIZE && signal?.aborted !== true;) {
    count = (await table.deleteMany({ where, limit: BATCH_SIZE })).count
    sum += count
  }
  return sum
}

/**
 * Deletes rows whose time in a column lies before another time, in batches. Each goes on from the time of the
 * last one, so that it doesn't read what earlier ones deleted.
 *
 * @param prepare is called with the condition of times before their rows are deleted
 * @returns the number of deleted rows
 */
export async function deleteOlder (
  table: Table,
  column: string,
  before: Date,
  signal?: AbortSignal,
  prepare?: (times: object) => Promise<unknown>
): Promise<number> {
  let sum = 0
  for (let from: Date | undefined = new Date(0); from !== undefined && signal?.aborted !== true;) {
    const last = await table.findFirst({
      where: { [column]: { gte: from, lt: before } },
      orderBy: { [column]: 'asc' },
      skip: BATCH_SIZE - 1,
      select: { [column]: true }
    }) as Record<string, Date> | null
    const times = { gte: from, ...last === null ? { lt: before } : { lte: last[column] } }
    await prepare?.(times)
    sum += await deleteInBatches(table, { [column]: times }, signal)
    from = last?.[column]
  }
  return sum
}
