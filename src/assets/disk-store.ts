import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lstat, open, rename, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { DiskFullError, unavailable } from '../errors.ts'
import { makeFolder } from '../folders.ts'
import { randomPublicId } from '../identifiers.ts'
import { presentationOf } from './storage-key.ts'

// Files on their way: first in `.tmp/` beside what is served (the same file system, so that a rename moves them), and
// under their final name only when every byte is on the disk.

const TEMPORARY_FOLDER = '.tmp'
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/**
 * What comes with EFBIG. Node ignores it until somebody listens, which the library of the embedded database's lock does,
 * to end the process if it is the only one.
 */
const onFileSizeLimit = () => {}

/** A complete file that nobody can see yet: `publish` or `discard` it. */
export interface StagedFile {
  /** Open for reading, until published or discarded. */
  readonly handle: FileHandle
  readonly byteSize: number
  /** SHA-256, hex. */
  readonly checksum: string
  /** Gives the file its final name, for good: it survives a crash once this resolves. */
  publish (key: string): Promise<void>
  /** Removes it. Never fails; what can't be removed is left to the sweep. */
  discard (): Promise<void>
}

/** The folder of the uploaded files. Disk errors come out as `DiskFullError` or a 503, with their reason in the log. */
export class DiskStore {
  readonly folder: string
  readonly temporaryFolder: string
  readonly #log: FastifyBaseLogger

  constructor (folder: string, log: FastifyBaseLogger) {
    this.folder = folder
    this.temporaryFolder = join(folder, TEMPORARY_FOLDER)
    this.#log = log
  }

  /**
   * Makes the folders and tries them.
   *
   * @throws {Error} one line naming UPLOADS_DIR, when files can't be stored there
   */
  async prepare (): Promise<void> {
    if (!process.listeners('SIGXFSZ').includes(onFileSizeLimit)) process.on('SIGXFSZ', onFileSizeLimit)
    try {
      await makeFolder(this.temporaryFolder)
      const probe = join(this.temporaryFolder, randomPublicId())
      const handle = await open(probe, 'wx')
      await handle.close()
      await unlink(probe)
      await access(this.folder, constants.W_OK)
    } catch (error) {
      throw new Error(`UPLOADS_DIR must be a folder that the service can write to, which ${this.folder} is not (${(error as NodeJS.ErrnoException).code})`, { cause: error })
    }
  }

  /**
   * Writes a stream to a temporary file, one chunk in memory at a time. If the stream fails, its error comes out and
   * nothing is left behind.
   */
  async receive (source: AsyncIterable<Uint8Array>): Promise<StagedFile> {
    const path = join(this.temporaryFolder, randomPublicId())
    const handle = await this.#try(() => this.#create(path))
    const hash = createHash('sha256')
    let byteSize = 0
    try {
      for await (const chunk of source) {
        hash.update(chunk)
        byteSize += chunk.byteLength
        await this.#try(() => writeAll(handle, chunk))
      }
      await this.#try(() => handle.sync())
    } catch (error) {
      await this.#abandon(path, handle)
      throw error
    }
    return {
      handle,
      byteSize,
      checksum: hash.digest('hex'),
      publish: async (key) => {
        try {
          await this.#try(async () => {
            await handle.close()
            await rename(path, this.#path(key))
            await syncFolder(this.folder)
          })
        } catch (error) {
          await this.remove(key)
          await this.#abandon(path, handle)
          throw error
        }
      },
      discard: async () => await this.#abandon(path, handle)
    }
  }

  /** Removes a published file. Never fails; what can't be removed is left to the sweep. */
  async remove (key: string): Promise<void> {
    await this.#unlink(this.#path(key))
  }

  /**
   * Refuses while files can't be removed, so that no row goes whose file would stay to be served.
   *
   * @throws {RetryLaterError} 503
   */
  async assertWritable (): Promise<void> {
    await this.#try(() => access(this.folder, constants.W_OK))
  }

  /** Whether a published file is a regular one, with its size. Symbolic links, folders and devices are not files here. */
  async exists (key: string): Promise<boolean> {
    try {
      return (await lstat(this.#path(key))).isFile()
    } catch (error) {
      if (isMissing(error)) return false
      throw this.#translate(error)
    }
  }

  /** @throws {Error} for a name that the service can't have given, whoever wrote it into the database */
  #path (key: string): string {
    if (presentationOf(key) === undefined) throw new Error('a file has a name that is none of ours')
    return join(this.folder, key)
  }

  async #create (path: string): Promise<FileHandle> {
    try {
      return await open(path, 'wx+')
    } catch (error) {
      if (!isMissing(error)) throw error
      // Somebody has cleaned up too well.
      await makeFolder(this.temporaryFolder)
      return await open(path, 'wx+')
    }
  }

  async #abandon (path: string, handle: FileHandle): Promise<void> {
    await handle.close().catch(() => {}) // closed already, or a disk that reports at last what it couldn't write
    await this.#unlink(path)
  }

  async #unlink (path: string): Promise<void> {
    try {
      await unlink(path)
    } catch (error) {
      if (!isMissing(error)) this.#log.error({ err: error }, 'a file could not be removed; the sweep will try again')
    }
  }

  async #try<T> (action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      throw this.#translate(error)
    }
  }

  #translate (error: unknown): unknown {
    const code = (error as NodeJS.ErrnoException).code
    if (code === undefined) return error
    this.#log.error({ err: error }, 'the folder of the uploads failed')
    return NO_ROOM.has(code) ? new DiskFullError() : unavailable()
  }
}

export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

async function writeAll (handle: FileHandle, chunk: Uint8Array): Promise<void> {
  let written = 0
  while (written < chunk.byteLength) {
    written += (await handle.write(chunk, written, chunk.byteLength - written)).bytesWritten
  }
}

/** A rename is on the disk only when its folder is. Some systems can't open folders: theirs are written at once. */
async function syncFolder (folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EISDIR' || error.code === 'EPERM') return undefined
    throw error
  })
  if (handle === undefined) return
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
