import { databaseId } from '../database/identity.ts'
import type { PrismaClient } from '../generated/prisma/client.ts'
import type { FileStore } from './file-store.ts'
import { referencedKeys } from './repository.ts'
import { OWNER } from './storage-key.ts'

// Which database the uploaded files belong to. To any other one, such as an empty one or a copy that was named by
// mistake, most of them are files without a row.

/** Names that are looked at to tell whether files that nobody has claimed belong here. */
const SAMPLE_SIZE = 1000

/**
 * Whether the files belong to the database. An empty place does from now on, and so do files that belong to none if the
 * database has a row for one of them.
 */
export async function claimFiles (database: PrismaClient, store: FileStore): Promise<boolean> {
  const id = await databaseId(database)
  const owner = await store.owner()
  if (owner === id) return true
  const sample: string[] = []
  for await (const key of store.keys()) if (sample.push(key) === SAMPLE_SIZE) break
  if (sample.length > 0 && (owner !== undefined || (await referencedKeys(database, sample)).size === 0)) return false
  await store.setOwner(id)
  return true
}

/** What to tell whoever runs a service whose files belong to another database. */
export const foreign = ({ place }: FileStore): string =>
  `${place} belongs to another database: what has no row in this one is not removed. Check DATABASE_URL; if the database was moved, remove ${OWNER} from there`
