import { createHash } from 'node:crypto'
import { lstat, mkdir, opendir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { copyRegularFile, isMissing } from '../../infra/system/fs-utils.ts'

// Listing, hashing and copying files.

/** File systems round times. Two changes within this period may get the same timestamp. */
const TIME_RESOLUTION_NS = 2_000_000_000n

/** Returns the SHA-256 of the content, hex. */
export async function computeChecksum (content: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of content) hash.update(chunk)
  return hash.digest('hex')
}

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

/**
 * Copies a folder that another process writes to, in two passes. The first `update` copies all files, the
 * second only those that have changed since. The writer has to pause only during the second.
 */
export class FolderCopy {
  readonly #from: string
  readonly #to: string
  /** The times, size and inode of each file right before it was copied. */
  #copied = new Map<string, string>()
  /**
   * Start of the last pass minus TIME_RESOLUTION_NS, in ns since 1970. A file with a later timestamp is
   * copied again even if it looks the same.
   */
  #changedSince = 0n

  constructor (from: string, to: string) {
    this.#from = from
    this.#to = to
  }

  /** @param signal checked before each file */
  async update (signal?: AbortSignal): Promise<void> {
    const before = this.#copied
    const changedSince = this.#changedSince
    this.#copied = new Map()
    this.#changedSince = BigInt(Date.now()) * 1_000_000n - TIME_RESOLUTION_NS
    await this.#copyFolder('', before, changedSince, signal)
    for (const path of before.keys()) {
      if (!this.#copied.has(path)) await rm(join(this.#to, path), { recursive: true, force: true })
    }
  }

  async #copyFolder (
    folder: string,
    before: ReadonlyMap<string, string>,
    changedSince: bigint,
    signal: AbortSignal | undefined
  ): Promise<void> {
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
        await this.#copyFolder(path, before, changedSince, signal)
        continue
      }
      const state = [stats.mtimeNs, stats.ctimeNs, stats.size, stats.ino].join()
      const isUnchanged = before.get(path) === state &&
        stats.mtimeNs < changedSince && stats.ctimeNs < changedSince
      if (isUnchanged || await copyRegularFile(join(this.#from, path), join(this.#to, path)) !== undefined) {
        this.#copied.set(path, state)
      }
    }
  }
}
