import { chmod, lstat, mkdir, opendir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { copyRegularFile, isMissing, sync } from '../../infra/system/fs-utils.ts'
import { SECRET } from './common.ts'

// Listing and copying files.

/** File systems round times. Two changes within this period may get the same timestamp. */
const TIME_RESOLUTION_NS = 2_000_000_000n

/**
 * Lists the regular files in a folder and its subfolders, as paths with slashes. The `recursive` option of
 * `opendir` leaves out some files in Node 20.
 */
export async function* listFiles (folder: string, prefix = ''): AsyncGenerator<string> {
  for await (const entry of await opendir(join(folder, prefix))) {
    const path = `${prefix}${entry.name}`
    if (entry.isDirectory()) yield* listFiles(folder, `${path}/`)
    else if (entry.isFile()) yield path
  }
}

/** Copies the generated secret from a folder to another, if there is one. Only its owner can read it. */
export async function copySecret (from: string, to: string): Promise<void> {
  const copy = join(to, SECRET)
  if (await copyRegularFile(join(from, SECRET), copy) === undefined) return
  await chmod(copy, 0o600)
  await sync(copy)
}

/**
 * Returns a function that copies a folder that another process writes to. Its first call copies all files,
 * the second only those that have changed since. The writer has to pause only during the second. The signal
 * is checked before each file.
 */
export function createFolderCopy (from: string, to: string): (signal?: AbortSignal) => Promise<void> {
  /** The times, size and inode of each file right before it was copied. */
  let copied: ReadonlyMap<string, string> = new Map()
  /** In ns since 1970. A file with a later timestamp is copied again even if it looks the same. */
  let changedSince = 0n

  return async (signal) => {
    const states = new Map<string, string>()
    const startedAt = BigInt(Date.now()) * 1_000_000n

    async function copyFolder (folder: string): Promise<void> {
      await mkdir(join(to, folder), { recursive: true, mode: 0o700 })
      for (const name of await readdir(join(from, folder))) {
        signal?.throwIfAborted()
        const path = join(folder, name)
        const stats = await lstat(join(from, path), { bigint: true }).catch((error: unknown) => {
          if (isMissing(error)) return undefined
          throw error
        })
        if (stats === undefined) continue
        if (stats.isDirectory()) {
          await copyFolder(path)
          continue
        }
        const state = [stats.mtimeNs, stats.ctimeNs, stats.size, stats.ino].join()
        const isUnchanged = copied.get(path) === state &&
          stats.mtimeNs < changedSince && stats.ctimeNs < changedSince
        if (isUnchanged || await copyRegularFile(join(from, path), join(to, path)) !== undefined) {
          states.set(path, state)
        }
      }
    }

    await copyFolder('')
    for (const path of copied.keys()) {
      if (!states.has(path)) await rm(join(to, path), { recursive: true, force: true })
    }
    copied = states
    changedSince = startedAt - TIME_RESOLUTION_NS
  }
}
