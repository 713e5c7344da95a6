import { DiskStore } from '../assets/disk-store.ts'
import { openFileStore, type FileStore } from '../assets/file-store.ts'
import { DiskFullError, RetryLaterError } from '../errors.ts'
import type { Place } from './databases.ts'
import { BackupError } from './progress.ts'

// The uploads of a service, for commands: what fails is told to whoever runs them, not to a log.

/** The service's uploads, while they are being worked on. */
export interface Uploads {
  readonly store: FileStore
  /** Why the store has failed last. */
  reason (): string
}

/** Those in a folder, such as that of a backup. */
export function folderUploads (folder: string): Uploads {
  const seen = { reason: '' }
  return { store: new DiskStore(folder, noting(seen)), reason: () => seen.reason }
}

/**
 * Runs something on the uploads that the settings name.
 *
 * @throws {BackupError} the store can't be used; one line with the reason
 */
export async function withUploads<T> (place: Place, action: (uploads: Uploads) => Promise<T>): Promise<T> {
  const seen = { reason: '' }
  const store = await openFileStore(place, noting(seen))
  try {
    return await action({ store, reason: () => seen.reason })
  } catch (error) {
    if (error instanceof RetryLaterError || error instanceof DiskFullError) throw new BackupError(`${store.place} can't be used: ${seen.reason}`, { cause: error })
    throw error
  } finally {
    store.close()
  }
}

const noting = (seen: { reason: string }) => ({ error: (fields: unknown) => { seen.reason = reasonIn(fields) } })

function reasonIn (fields: unknown): string {
  const { hint, code, reason, err } = fields as { hint?: string, code?: string, reason?: string, err?: NodeJS.ErrnoException }
  return hint ?? err?.code ?? [code, reason].filter((text) => text !== undefined && text !== '').join(': ')
}

/** Does something with each, several at once; after a failure nothing more is begun. */
export async function each<T> (items: AsyncIterable<T> | Iterable<T>, atOnce: number, action: (item: T) => Promise<void>): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  const failures: unknown[] = []
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (failures.length === 0) {
      try {
        const { done, value } = await iterator.next()
        if (done === true) return
        await action(value)
      } catch (error) {
        failures.push(error)
      }
    }
  }))
  if (failures.length > 0) throw failures[0]
}
