import type { FileStore } from './file-store.ts'
import { OWNER } from './storage-key.ts'

// The files are marked with the database that they belong to.

/** Number of files without an owner that are looked up in the database. */
const SAMPLE_SIZE = 1000

/**
 * Whether files that aren't marked as those of the database belong to another one.
 *
 * @param owner the id of the database that they are marked with
 * @param referenced returns the keys that have a row
 */
export async function areForeign (
  store: FileStore,
  owner: string | undefined,
  referenced: (keys: readonly string[]) => Promise<ReadonlySet<string>>
): Promise<boolean> {
  const sample: string[] = []
  for await (const key of store.keys()) if (sample.push(key) === SAMPLE_SIZE) break
  return sample.length > 0 && (owner !== undefined || (await referenced(sample)).size === 0)
}

/** Returns the message for the operator when `claimFiles` returned false. */
export const wrongOwnerMessage = ({ place }: FileStore): string =>
  `${place} belongs to another database: files without a row in this one are not removed. Give each ` +
  `database uploads of its own. If this database was moved, remove ${OWNER} from there`
