import { constants } from 'node:fs'
import { copyFile, lstat, mkdir, open, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

/**
 * Makes a folder with its parents, unless it is there. `mkdir`'s own `recursive` never ends where the system denies that
 * a parent exists (`/proc/x/y`).
 *
 * @param mode permissions of what is made, such as 0o700
 */
export async function makeFolder (path: string, mode?: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return
    if (code !== 'ENOENT' || dirname(path) === path) throw error
    await makeFolder(dirname(path), mode)
    await mkdir(path, { mode }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error // somebody else was faster
    })
  }
}

/**
 * Copies a file. Where the file system can, the copy shares its blocks with the original until one changes.
 *
 * @returns its size in bytes; undefined when it is not there, or a link or a folder
 */
export async function copyRegular (from: string, to: string): Promise<number | undefined> {
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

/** Puts everything in a folder on the disk. */
export async function syncTree (folder: string, signal?: AbortSignal): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true })
  // Several at once: the disk writes them together.
  const workers = Array.from({ length: 16 }, async () => {
    for (let entry = entries.pop(); entry !== undefined; entry = entries.pop()) {
      signal?.throwIfAborted()
      const path = join(folder, entry.name)
      if (entry.isDirectory()) await syncTree(path, signal)
      else if (entry.isFile()) await sync(path)
    }
  })
  await Promise.all(workers)
  await sync(folder)
}

/** Puts a file, or the list of files in a folder, on the disk. */
export async function sync (path: string): Promise<void> {
  const handle = await open(path)
  await handle.sync().finally(async () => await handle.close())
}
