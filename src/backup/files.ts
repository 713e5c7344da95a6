import { lstat, mkdir, opendir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { copyRegular, isMissing } from '../folders.ts'
import type { FileStore } from '../assets/file-store.ts'
import { begin, type WorkOptions } from './progress.ts'
import { each } from './uploads.ts'

// Copies of folders and files. Where the file system can, a copy shares its blocks with the original until one changes.

/** Times of files move in steps; a file that was changed within one of its copy may look as before. */
const TIME_STEP_NS = 2_000_000_000n

/** The regular files in a folder and its folders, as paths with slashes. (`opendir`'s own `recursive` leaves some out in Node 20.) */
export async function * filesIn (folder: string, prefix = ''): AsyncGenerator<string> {
  for await (const entry of await opendir(join(folder, prefix))) {
    const path = `${prefix}${entry.name}`
    if (entry.isDirectory()) yield * filesIn(folder, `${path}/`)
    else if (entry.isFile()) yield path
  }
}

/** Copies those of the stored files that the folder lacks. Files are never changed, so those that it has are the same. */
export async function copyStored (from: FileStore, to: string, options: WorkOptions, step: string): Promise<void> {
  const done = begin(options, step)
  const there = new Set(await readdir(to))
  await each(from.keys(), from.filesAtOnce, async (key) => {
    if (there.has(key)) return
    const size = await from.copyOut(key, join(to, key))
    if (size !== undefined) done(size)
  })
}

/**
 * A copy of a folder that is being written, made in two goes: the second one copies again what has changed since and
 * removes what is gone, so that the writer has to stand still only for that.
 */
export class FolderCopy {
  readonly #from: string
  readonly #to: string
  /** What each copied file was like just before. */
  #seen = new Map<string, string>()
  /** Whatever was changed since this may have changed again. */
  #since = 0n

  constructor (from: string, to: string) {
    this.#from = from
    this.#to = to
  }

  /** @param signal breaks it off between two files */
  async update (signal?: AbortSignal): Promise<void> {
    const before = this.#seen
    const since = this.#since
    this.#seen = new Map()
    this.#since = BigInt(Date.now()) * 1_000_000n - TIME_STEP_NS
    await this.#walk('', before, since, signal)
    for (const path of before.keys()) if (!this.#seen.has(path)) await rm(join(this.#to, path), { recursive: true, force: true })
  }

  async #walk (folder: string, before: ReadonlyMap<string, string>, since: bigint, signal: AbortSignal | undefined): Promise<void> {
    await mkdir(join(this.#to, folder), { recursive: true, mode: 0o700 })
    for (const name of await readdir(join(this.#from, folder))) {
      signal?.throwIfAborted()
      const path = join(folder, name)
      const stats = await lstat(join(this.#from, path), { bigint: true }).catch((error: unknown) => {
        if (isMissing(error)) return undefined
        throw error
      })
      if (stats === undefined) continue
      if (stats.isDirectory()) {
        await this.#walk(path, before, since, signal)
        continue
      }
      const look = [stats.mtimeNs, stats.ctimeNs, stats.size, stats.ino].join()
      if (before.get(path) !== look || stats.mtimeNs >= since || stats.ctimeNs >= since) {
        if (await copyRegular(join(this.#from, path), join(this.#to, path)) === undefined) continue
      }
      this.#seen.set(path, look)
    }
  }
}
