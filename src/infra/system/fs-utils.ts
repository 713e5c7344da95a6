import { constants } from 'node:fs'
import { copyFile, lstat, mkdir, open, opendir, readdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { forEachConcurrently } from './semaphore.ts'

export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

/**
 * Creates a folder and its missing parents. Node's recursive `mkdir` never returns if a parent can't be
 * created (`/proc/x/y`).
 *
 * @param mode permissions of the folder, such as 0o700; its parents have the usual ones
 */
export async function makeFolder (path: string, mode?: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return
    if (code !== 'ENOENT' || dirname(path) === path) throw error
    await makeFolder(dirname(path))
    await mkdir(path, { mode }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error // another process was faster
    })
  }
}

/**
 * Copies a file. If the file system supports it, both files share their blocks until one of them changes.
 *
 * @returns the size in bytes; undefined if the file doesn't exist or isn't a regular file
 */
export async function copyRegularFile (from: string, to: string): Promise<number | undefined> {
  try {
    const stats = await lstat(from)
    if (!stats.isFile()) return undefined
    await copyFile(from, to, constants.COPYFILE_FICLONE)
    return stats.size
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

export async function syncTree (folder: string, signal?: AbortSignal): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true })
  // Several at once, so that the disk can write them together.
  await forEachConcurrently(entries, 16, async (entry) => {
    signal?.throwIfAborted()
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await syncTree(path, signal)
    else if (entry.isFile()) await sync(path)
  })
  await sync(folder)
}

/** Syncs a file, or the entries of a folder, to the disk. */
export async function sync (path: string): Promise<void> {
  const handle = await open(path)
  await handle.sync().finally(async () => await handle.close())
}

/** Removes a file. @returns false when there was no such file */
export async function removeIfExists (path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/** Yields the accepted names in a folder one by one, as there may be millions; none if it is missing. */
export async function* listNames (
  folder: string,
  isAccepted: (name: string) => boolean
): AsyncGenerator<string> {
  let entries
  try {
    entries = await opendir(folder)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  for await (const { name } of entries) if (isAccepted(name)) yield name
}
