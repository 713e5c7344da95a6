import type { StatementRunner } from '../../infra/postgres/statement.ts'
import { revokeAccess } from '../accounts/index.ts'
import { removeAssetsOf, type FileStore, type RemovedAssets } from '../assets/index.ts'
import { deletePages, listPagesOf } from '../landing-pages/index.ts'
import { OLDEST } from '../../http/pagination.ts'
import { deleteUser } from './deletion-repository.ts'

/** Few, because each may have many large versions. */
const PAGES_PER_STATEMENT = 10
/** Pages that are published together as deleted. */
const PUBLISHED_AT_ONCE = 500

export interface DeletionTools {
  readonly database: StatementRunner
  readonly files: FileStore
  /** Publishes to all caches that pages are deleted. Must not reject. */
  readonly publish: (publicIds: readonly string[]) => Promise<void>
}

export interface RemovedContent extends RemovedAssets {
  readonly pages: number
  /** Whether this call has removed the last of it, the row of the account. */
  readonly isFinished: boolean
}

/**
 * Removes all pages of an account whose deletion has begun from the caches. Readers get a 404 from then on,
 * because the public read finds no pages of such an account.
 */
export async function hidePages ({ database, publish }: DeletionTools, userId: number): Promise<void> {
  for (let after: string | undefined = OLDEST; after !== undefined;) {
    const pages: { id: string, publicId: string }[] = await listPagesOf(
      database,
      userId,
      after,
      PUBLISHED_AT_ONCE
    )
    await publish(pages.map(({ publicId }) => publicId))
    after = pages.at(-1)?.id
  }
}

/**
 * Removes what belongs to an account whose deletion has begun, and then the account. It may be interrupted at
 * any time, and run again, also by several processes at once. The pages must be hidden.
 *
 * @param signal stops between two batches
 */
export async function finishDeletion (
  { database, files }: Omit<DeletionTools, 'publish'>,
  userId: number,
  signal?: AbortSignal
): Promise<RemovedContent> {
  // A sign-in that was under way when the deletion began may have started a session since.
  await revokeAccess(database, userId)
  let pages = 0
  for (let after = OLDEST; signal?.aborted !== true;) {
    const ids = (await listPagesOf(database, userId, after, PAGES_PER_STATEMENT)).map(({ id }) => id)
    await deletePages(database, ids)
    pages += ids.length
    if (ids.length < PAGES_PER_STATEMENT) break
    after = ids.at(-1) as string
  }
  const assets = await removeAssetsOf(database, files, userId, signal)
  const isEmpty = assets.failed === 0 && signal?.aborted !== true
  const isFinished = isEmpty && await deleteUser(database, userId)
  return { pages, ...assets, isFinished }
}
