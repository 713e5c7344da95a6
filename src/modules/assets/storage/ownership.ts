import type { Database } from '../../../infra/postgres/database.ts'
import { identifyDatabase } from '../../../infra/postgres/identity-repository.ts'
import type { FileStore } from './file-store.ts'
import { referencedKeys } from '../asset-repository.ts'
import { OWNER } from './storage-key.ts'

/** Number of files without an owner that are looked up in the database. */
const SAMPLE_SIZE = 1000

/**
 * Tells whether the files belong to the database, so that a wrong DATABASE_URL doesn't make the cleanup
 * delete them. Claims an empty storage, and also files without an owner if one of them has a row.
 *
 * @throws {Error} if the database is a standby, which may lack rows
 */
export async function claimFiles (database: Database, store: FileStore): Promise<boolean> {
  const { id, isStandby } = await identifyDatabase(database)
  if (isStandby) throw new Error('the database is a standby')
  const owner = await store.owner()
  if (owner === id) return true
  if (await areForeign(store, owner, async (keys) => await referencedKeys(database, keys))) return false
  await store.setOwner(id)
  return true
}

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
