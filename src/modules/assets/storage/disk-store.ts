import { createHash } from 'node:crypto'
import { constants, existsSync } from 'node:fs'
import { access, lstat, open, readdir, readFile, rename, rm, rmdir, unlink, writeFile,
  type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { DiskFullError, createUnavailableError } from '../../../errors.ts'
import { copyRegularFile, isMissing, listNames, makeFolder, removeIfExists, sync,
  syncTree } from '../../../infra/system/fs-utils.ts'
import { isPublicId, randomPublicId } from '../../../infra/system/identifiers.ts'
import { infoOf, openRegularFile } from './disk-files.ts'
import { SNIFF_BYTES, type FileInfo, type FileStore, type Inspect, type OpenFile,
  type StagedFile } from './file-store.ts'
import { isPicture, isStorageKey, OWNER, stemOf, storagePath, VARIANTS_FOLDER } from './storage-key.ts'

const TEMPORARY_FOLDER = '.tmp'
/** The mode of a new UPLOADS_DIR. Anyone who can list it knows the URLs of all files. */
const PRIVATE = 0o700
/** The mode of the folder of variants: nginx may open a file whose name it knows. */
const UNLISTED = 0o711
const DISK_FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

const ignoreFileSizeLimit = () => {}

/** Stores uploads in a folder. docs/adr/0013-uploads-survive-crashes.md explains the order of its steps. */
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
    // Exceeding the system's file size limit (EFBIG) also raises SIGXFSZ. proper-lockfile then ends the
    // process, unless there is another listener.
    if (!process.listeners('SIGXFSZ').includes(ignoreFileSizeLimit)) {
      process.on('SIGXFSZ', ignoreFileSizeLimit)
    }
    try {
      await this.#makeFolders()
      const probe = this.#temporaryPath()
      await writeFile(probe, '', { flag: 'wx' })
      await unlink(probe)
      await access(this.folder, constants.W_OK)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw new Error(
        `UPLOADS_DIR must be a folder that the service can write to, but ${this.folder} is not (${code})`,
        { cause: error }
      )
    }
  }

  async receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile> {
    const path = this.#temporaryPath()
    const handle = await this.#try(() => this.#create(path))
    const hash = createHash('sha256')
    let byteSize = 0
    try {
      for await (const chunk of source) {
        hash.update(chunk)
        await this.#try(() => handle.writeFile(chunk))
        byteSize += chunk.byteLength
      }
      await this.#try(() => handle.sync())
      const head = new Uint8Array(Math.min(SNIFF_BYTES, byteSize))
      const { bytesRead } = await this.#try(() => handle.read(head, 0, head.length, 0))
      const { key } = await inspect(head.subarray(0, bytesRead))
      return {
        byteSize,
        checksum: hash.digest('hex'),
        publish: async () => await this.#publish(path, handle, key),
        discard: async () => await this.#discard(path, handle)
      }
    } catch (error) {
      await this.#discard(path, handle)
      throw error
    }
  }

  async #publish (path: string, handle: FileHandle, key: string): Promise<void> {
    try {
      await this.#try(async () => {
        await handle.close()
        const folder = dirname(this.#path(key))
        if (folder !== this.folder) {
          await makeFolder(this.#variantsFolder, UNLISTED)
          await makeFolder(folder)
        }
        await rename(path, this.#path(key))
        await sync(folder)
      })
    } catch (error) {
      await this.#try(() => removeIfExists(this.#path(key))).catch(() => {})
      await this.#discard(path, handle)
      throw error
    }
  }

  async open (key: string): Promise<OpenFile | undefined> {
    return await this.#try(() => openRegularFile(this.#path(key)))
  }

  async stat (key: string): Promise<FileInfo | undefined> {
    return await this.#try(async () => {
      const stats = await lstatIfExists(this.#path(key))
      return stats?.isFile() === true ? infoOf(stats) : undefined
    })
  }

  async remove (key: string): Promise<boolean> {
    const isRemoved = await this.#try(() => removeIfExists(this.#path(key)))
    if (isPicture(key)) await this.removeVariants(stemOf(key))
    return isRemoved
  }

  async removeVariants (stem: string): Promise<void> {
    // The folder is not empty if a variant was published in the meantime.
    const options = { recursive: true, force: true, maxRetries: 3 }
    await this.#try(() => rm(join(this.#variantsFolder, stem), options))
  }

  async assertWritable (): Promise<void> {
    await this.#try(() => access(this.folder, constants.W_OK))
  }

  async owner (): Promise<string | undefined> {
    return await this.#try(async () => {
      try {
        return (await readFile(join(this.folder, OWNER), 'utf8')).trim()
      } catch (error) {
        if (isMissing(error)) return undefined
        throw error
      }
    })
  }

  async setOwner (id: string): Promise<void> {
    const path = this.#temporaryPath()
    try {
      await this.#try(async () => {
        await writeFile(path, `${id}\n`, { flag: 'wx', flush: true })
        await rename(path, join(this.folder, OWNER))
      })
    } catch (error) {
      await rm(path, { force: true }).catch(() => {})
      throw error
    }
  }

  keys (): AsyncGenerator<string> {
    return listNames(this.folder, isStorageKey)
  }

  stemsWithVariants (): AsyncGenerator<string> {
    return listNames(this.#variantsFolder, isPublicId)
  }

  async removeUnfinished (ageMs: number, signal?: AbortSignal): Promise<number> {
    let removed = 0
    for await (const name of listNames(this.temporaryFolder, isPublicId)) {
      if (signal?.aborted === true) break
      const path = join(this.temporaryFolder, name)
      const stats = await lstatIfExists(path)
      // A file that is still being written has a new mtime.
      if (stats?.isFile() !== true || Date.now() - infoOf(stats).publishedAtMs < ageMs) continue
      if (await removeIfExists(path)) removed++
    }
    return removed
  }

  async copyOut (key: string, path: string): Promise<number | undefined> {
    return await copyRegularFile(this.#path(key), path)
  }

  async copyIn (path: string, key: string): Promise<number | undefined> {
    return await copyRegularFile(path, this.#path(key))
  }

  async prepareRestore (): Promise<(() => Promise<void>) | undefined> {
    const existed = existsSync(this.folder)
    await makeFolder(this.folder, PRIVATE)
    const visible = async () => (await readdir(this.folder)).filter((name) => !name.startsWith('.'))
    if ((await visible()).length > 0) return undefined
    await rm(join(this.folder, OWNER), { force: true })
    return async () => {
      for (const name of await visible().catch(() => [])) await rm(join(this.folder, name), { force: true })
      if (!existed) await rmdir(this.folder).catch(() => {}) // it may hold hidden files
    }
  }

  async sync (signal?: AbortSignal): Promise<void> {
    await syncTree(this.folder, signal)
  }

  close (): void {}

  get #variantsFolder (): string {
    return join(this.folder, VARIANTS_FOLDER)
  }

  #path (name: string): string {
    return join(this.folder, storagePath(name))
  }

  #temporaryPath (): string {
    return join(this.temporaryFolder, randomPublicId())
  }

  async #makeFolders (): Promise<void> {
    await makeFolder(this.folder, PRIVATE)
    await makeFolder(this.temporaryFolder, PRIVATE)
  }

  async #create (path: string): Promise<FileHandle> {
    try {
      return await open(path, 'wx+')
    } catch (error) {
      if (!isMissing(error)) throw error
      await this.#makeFolders() // removed while the service was running
      return await open(path, 'wx+')
    }
  }

  async #discard (path: string, handle: FileHandle): Promise<void> {
    await handle.close().catch(() => {}) // it may be closed already, or report a failed write again
    await this.#try(() => removeIfExists(path)).catch(() => {})
  }

  async #try<T> (action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === undefined) throw error
      this.#log.error({ err: error }, 'access to the uploads folder failed')
      throw DISK_FULL.has(code) ? new DiskFullError() : createUnavailableError()
    }
  }
}

const lstatIfExists = async (path: string) =>
  await lstat(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error
  })
