import { statfs } from 'node:fs/promises'

/** Shares the free space of a disk among the uploads of this process, so that those that fit succeed. */
export class DiskSpace {
  readonly #folder: string
  #reserved = 0

  constructor (folder: string) {
    this.#folder = folder
  }

  /** Reserves space that is not written yet. @throws {Error} ENOSPC */
  async reserve (bytes: number): Promise<void> {
    const before = this.#reserved
    const { blocks, bavail, bsize } = await statfs(this.#folder)
    const free = bavail * bsize - Math.max(before, this.#reserved)
    // Some file systems don't know their size.
    if (blocks > 0 && bytes > free) {
      throw Object.assign(new Error('the free space is reserved for other uploads'), { code: 'ENOSPC' })
    }
    this.#reserved += bytes
  }

  /** Ends a reservation, because the bytes are written or won't be. */
  release (bytes: number): void {
    this.#reserved -= bytes
  }
}
