import { createHash } from 'node:crypto'
import { constants, existsSync, type Stats } from 'node:fs'
import { access, lstat, open, opendir, readdir, readFile, rename, rm, rmdir, unlink, writeFile, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { FastifyBaseLogger } from 'fastify'
import { DiskFullError, unavailable } from '../errors.ts'
import { copyRegular, isMissing, makeFolder, syncTree } from '../folders.ts'
import { isPublicId, randomPublicId } from '../identifiers.ts'
import type { FileInfo, FileStore, Inspect, OpenFile, StagedFile } from './file-store.ts'
import { SNIFF_BYTES } from './sniff.ts'
import { isStorageKey, OWNER } from './storage-key.ts'

// Files on their way: first in `.tmp/` beside what is served (the same file system, so that a rename moves them), and
// under their final name only when every byte is on the disk.

const TEMPORARY_FOLDER = '.tmp'
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
/** A link, or a socket, where a file was meant. */
const NO_FILE = new Set(['ELOOP', 'ENXIO'])
const READ_BYTES = 64 * 1024

/**
 * What comes with EFBIG. Node ignores it until somebody listens, which the library of the embedded database's lock does,
 * to end the process if it is the only one.
 */
const onFileSizeLimit = () => {}

/** A folder of uploaded files. */
export class DiskStore implements FileStore {
  readonly place: string
  readonly filesAtOnce = 1
  readonly folder: string
  readonly temporaryFolder: string
  readonly #log: Pick<FastifyBaseLogger, 'error'>

  constructor (folder: string, log: Pick<FastifyBaseLogger, 'error'>) {
    this.place = `UPLOADS_DIR ${folder}`
    this.folder = folder
    this.temporaryFolder = join(folder, TEMPORARY_FOLDER)
    this.#log = log
  }

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

  /** Writes to a temporary file, one chunk in memory at a time. */
  async receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile> {
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
      const { key, wanted } = await inspect(await this.#try(() => readAt(handle, 0, SNIFF_BYTES)))
      return {
        byteSize,
        checksum: hash.digest('hex'),
        wanted: wanted === undefined ? new Uint8Array() : await this.#try(() => readAt(handle, wanted.position, wanted.length)),
        publish: async () => await this.#publish(path, handle, key),
        discard: async () => await this.#abandon(path, handle)
      }
    } catch (error) {
      await this.#abandon(path, handle)
      throw error
    }
  }

  async #publish (path: string, handle: FileHandle, key: string): Promise<void> {
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
  }

  /** Symbolic links, folders and devices are not files here. */
  async open (key: string, _whole: boolean): Promise<OpenFile | undefined> {
    let handle: FileHandle | undefined
    try {
      // Without waiting for the other end of a pipe.
      handle = await open(this.#path(key), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
      const stats = await handle.stat()
      if (stats.isFile()) return openFile(handle, infoOf(stats))
      await handle.close()
      return undefined
    } catch (error) {
      await handle?.close().catch(() => {})
      if (isMissing(error) || NO_FILE.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
      throw this.#translate(error)
    }
  }

  async look (key: string): Promise<FileInfo | undefined> {
    try {
      const stats = await lstat(this.#path(key))
      return stats.isFile() ? infoOf(stats) : undefined
    } catch (error) {
      if (isMissing(error)) return undefined
      throw this.#translate(error)
    }
  }

  async remove (key: string): Promise<void> {
    await this.#unlink(this.#path(key))
  }

  async delete (key: string): Promise<boolean> {
    return await unlinked(this.#path(key))
  }

  async assertWritable (): Promise<void> {
    await this.#try(() => access(this.folder, constants.W_OK))
  }

  async owner (): Promise<string | undefined> {
    try {
      return (await readFile(join(this.folder, OWNER), 'utf8')).trim()
    } catch (error) {
      if (isMissing(error)) return undefined
      throw this.#translate(error)
    }
  }

  /** Nobody reads half of it. */
  async setOwner (id: string): Promise<void> {
    const path = join(this.temporaryFolder, randomPublicId())
    try {
      await this.#try(async () => {
        await writeFile(path, `${id}\n`, { flag: 'wx', flush: true })
        await rename(path, join(this.folder, OWNER))
      })
    } catch (error) {
      await this.#unlink(path)
      throw error
    }
  }

  keys (signal?: AbortSignal): AsyncGenerator<string> {
    return names(this.folder, isStorageKey, signal)
  }

  /** A file that grows is changed all the time. */
  async removeUnfinished (ageMs: number, signal?: AbortSignal): Promise<number> {
    let removed = 0
    for await (const name of names(this.temporaryFolder, isPublicId, signal)) {
      const path = join(this.temporaryFolder, name)
      const stats = await lstat(path).catch((error: unknown) => { if (!isMissing(error)) throw error })
      if (stats?.isFile() === true && Date.now() - infoOf(stats).namedAtMs >= ageMs && await unlinked(path)) removed++
    }
    return removed
  }

  async copyOut (key: string, path: string): Promise<number | undefined> {
    return await copyRegular(this.#path(key), path)
  }

  async copyIn (path: string, key: string): Promise<number | undefined> {
    return await copyRegular(path, this.#path(key))
  }

  /** Names with a dot are kept beside the files, such as the folder of unfinished ones. */
  async reserve (): Promise<(() => Promise<void>) | undefined> {
    const wasThere = existsSync(this.folder)
    await makeFolder(this.folder)
    const visible = async () => (await readdir(this.folder)).filter((name) => !name.startsWith('.'))
    if ((await visible()).length > 0) return undefined
    await rm(join(this.folder, OWNER), { force: true })
    return async () => {
      for (const name of await visible().catch(() => [])) await rm(join(this.folder, name), { force: true })
      if (!wasThere) await rmdir(this.folder).catch(() => {}) // only when nothing is in it
    }
  }

  async sync (signal?: AbortSignal): Promise<void> {
    await syncTree(this.folder, signal)
  }

  close (): void {}

  /** @throws {Error} for a name that the service can't have given, whoever wrote it into the database */
  #path (key: string): string {
    if (!isStorageKey(key)) throw new Error('a file has a name that is none of ours')
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

/** Size and time name the bytes: under a name that is never used again they are those of one file. */
const infoOf = ({ size, mtime, mtimeMs, ctimeMs }: Stats): FileInfo => ({
  byteSize: size,
  modifiedAt: mtime,
  // The time of change covers files that were copied here with their old times, ahead of their rows.
  namedAtMs: Math.max(mtimeMs, ctimeMs),
  etag: `"${size.toString(16)}-${mtime.getTime().toString(16)}"`
})

const openFile = (handle: FileHandle, info: FileInfo): OpenFile => ({
  ...info,
  async read (first = 0, last = Infinity): Promise<Readable> {
    return handle.createReadStream({ start: first, end: last, highWaterMark: READ_BYTES })
  },
  async close () {
    await handle.close().catch(() => {})
  }
})

/** @returns false when somebody was faster */
async function unlinked (path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/** Nothing, when there is no such folder. */
async function * names (folder: string, ours: (name: string) => boolean, signal?: AbortSignal): AsyncGenerator<string> {
  let entries
  try {
    entries = await opendir(folder)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  for await (const entry of entries) {
    if (signal?.aborted === true) return
    if (ours(entry.name)) yield entry.name
  }
}

/** Up to `length` bytes in a buffer of their own. */
async function readAt (file: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const { size } = await file.stat()
  const bytes = new Uint8Array(Math.max(0, Math.min(length, size - position)))
  let filled = 0
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, position + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}

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
