import type { StatementRunner } from '../../infra/postgres/statement.ts'
import { revokeAccess } from '../accounts/index.ts'
import { removeAssetsOf, type FileStore, type RemovedAssets } from '../assets/index.ts'
import { deletePagesOf } from '../landing-pages/index.ts'
import { deleteUser } from './deletion-repository.ts'

/** Few, because each may have many large versions. */
const PAGES_PER_STATEMENT = 10

export interface DeletionTools {
  readonly database: StatementRunner
  readonly files: FileStore
  /** Publishes to all caches that pages are deleted. Must not reject. */
  readonly publish: (publicIds: readonly string[]) => Promise<void>
}

/** What was removed with an account. */
export interface RemovedContent extends RemovedAssets {
  readonly pages: number
  /** Whether this call has removed the last of it, the row of the account. */
  readonly isFinished: boolean
}

/**
 * Removes what belongs to an account whose deletion has begun, and then the account. It may be interrupted at
 * any time, and run again, also by several processes at once.
 *
 * @param signal stops between two batches
 */
export async function finishDeletion (
  { database, files, publish }: DeletionTools,
  userId: number,
  signal?: AbortSignal
): Promise<RemovedContent> {
  // A sign-in that was under way when the deletion began may have started a session since.
  await revokeAccess(database, userId)
  let pages = 0
  while (signal?.aborted !== true) {
    const publicIds = await deletePagesOf(database, userId, PAGES_PER_STATEMENT)
    await publish(publicIds)
    pages += publicIds.length
    if (publicIds.length < PAGES_PER_STATEMENT) break
  }
  const assets = await removeAssetsOf(database, files, userId, signal)
  const isEmpty = assets.failed === 0 && signal?.aborted !== true
  const isFinished = isEmpty && await deleteUser(database, userId)
  return { pages, ...assets, isFinished }
}
