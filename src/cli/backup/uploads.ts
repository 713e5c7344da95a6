import { join } from 'node:path'
import { forEachConcurrently } from '../../infra/system/semaphore.ts'
import { DiskStore } from '../../modules/assets/storage/disk-store.ts'
import type { FileStore } from '../../modules/assets/storage/file-store.ts'
import { openFileStore } from '../../modules/assets/storage/plugin.ts'
import { DiskFullError, RetryLaterError } from '../../errors.ts'
import { type BackupConfig, BackupError, startStep, UPLOADS, type WorkOptions } from './common.ts'

// The file stores for the commands. A store logs the reason for a failure. Here the log keeps the reason for
// the error message.

export interface Uploads {
  readonly store: FileStore
  /** Returns the last reason that the store has logged, or an empty string. */
  readonly lastError: () => string
}

export function openBackupUploads (folder: string): Uploads {
  const log = new ReasonLog()
  return { store: new DiskStore(folder, log), lastError: () => log.reason }
}

/**
 * Runs `action` on the uploads of the settings.
 *
 * @throws {BackupError} the store can't be used; the message is one line with the reason
 */
export async function withUploads<T> (
  config: BackupConfig,
  action: (uploads: Uploads) => Promise<T>
): Promise<T> {
  const log = new ReasonLog()
  const store = await openFileStore(config, log)
  try {
    return await action({ store, lastError: () => log.reason })
  } catch (error) {
    if (error instanceof RetryLaterError || error instanceof DiskFullError) {
      throw new BackupError(`${store.place} can't be used: ${log.reason}`, { cause: error })
    }
    throw error
  } finally {
    store.close()
  }
}

/** Runs `action`, which fills the file store that the settings select. If it fails, the store is emptied. */
export async function withEmptyUploads<T> (
  config: BackupConfig,
  action: (uploads: Uploads) => Promise<T>
): Promise<T> {
  return await withUploads(config, async (uploads) => {
    const { store } = uploads
    const clear = await store.prepareRestore()
    if (clear === undefined) {
      const place = config.UPLOADS_URL === undefined ? 'folder' : 'bucket or prefix'
      throw new BackupError(`${store.place} is not empty: name a new ${place}, or move its content elsewhere`)
    }
    try {
      return await action(uploads)
    } catch (error) {
      await clear()
      throw error
    }
  })
}

/** Copies the uploads of a backup into the file store. */
export async function restoreUploads (
  directory: string,
  { store }: Uploads,
  count: number,
  options: WorkOptions
): Promise<void> {
  const folder = join(directory, UPLOADS)
  const done = startStep(options, 'copying the uploads', count)
  await forEachConcurrently(openBackupUploads(folder).store.keys(), store.filesAtOnce, async (key) => {
    const size = await store.copyIn(join(folder, key), key)
    if (size !== undefined) done(size)
  })
  startStep(options, 'writing the uploads to the disk')
  await store.sync(options.signal)
}

class ReasonLog {
  reason = ''

  error (fields: unknown): void {
    const { hint, code, reason, err } = fields as {
      hint?: string
      code?: string
      reason?: string
      err?: NodeJS.ErrnoException
    }
    this.reason = hint ?? err?.code ?? [code, reason].filter(Boolean).join(': ')
  }
}
