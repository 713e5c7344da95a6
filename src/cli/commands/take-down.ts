import { deleteAnyAsset, removeFile } from '../../modules/assets/index.ts'
import { deleteAnyPage } from '../../modules/landing-pages/index.ts'
import { auditCommand, loadCommandConfig } from '../operator.ts'
import { withUploads } from '../backup/uploads.ts'
import { withDatabase } from '../database.ts'
import { createDeletionPublisher, reportRemovedFiles } from '../deletions.ts'
import { print } from '../output.ts'

// The commands that delete a page or an asset of any account. Both return the exit code.

/** Deletes a page. Readers get a 404 at once, on all replicas. */
export async function takeDownPage (publicId: string): Promise<number> {
  const config = loadCommandConfig()
  const id = await withDatabase(config, async (database) => await deleteAnyPage(database, publicId))
  if (id === undefined) throw new Error(`There is no page ${publicId}: give the last part of its public URL`)
  auditCommand('pages take-down', { page: id, public_id: publicId })
  await createDeletionPublisher(config.REDIS_URL)([publicId])
  print(`Deleted page ${publicId}\n`)
  return 0
}

export async function takeDownAsset (name: string): Promise<number> {
  const config = loadCommandConfig()
  return await withUploads(config, async (uploads) => {
    await uploads.store.assertWritable()
    return await withDatabase(config, async (database) => {
      const asset = await deleteAnyAsset(database, name)
      if (asset === undefined) {
        throw new Error(`There is no asset ${name}: give its id, or the last part of its URL`)
      }
      auditCommand('assets take-down', { asset: asset.id })
      print(`Deleted asset ${asset.id}, ${asset.storageKey}\n`)
      const existed = await removeFile(database, uploads.store, asset.storageKey).catch(() => undefined)
      const removed = { missing: existed === false ? 1 : 0, failed: existed === undefined ? 1 : 0 }
      return reportRemovedFiles(uploads, removed, 'every hour')
    })
  })
}
