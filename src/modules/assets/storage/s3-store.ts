import { createReadStream } from 'node:fs'
import { lstat, open, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { AbortMultipartUploadCommand, DeleteObjectCommand, GetObjectCommand, HeadBucketCommand,
  HeadObjectCommand, ListMultipartUploadsCommand, ListObjectsV2Command, PutObjectCommand,
  type ListMultipartUploadsCommandOutput, type ListObjectsV2CommandOutput } from '@aws-sdk/client-s3'
import type { FastifyBaseLogger } from 'fastify'
import { NotFoundError, createUnavailableError } from '../../../errors.ts'
import { isMissing } from '../../../infra/system/fs-utils.ts'
import { isPublicId, randomPublicId } from '../../../infra/system/identifiers.ts'
import type { FileInfo, FileStore, Inspect, OpenFile, StagedFile } from './file-store.ts'
import { Bucket, hintOf, reasonOf, withIdleTimeout, type S3Settings } from './s3-client.ts'
import { partBytesFor, S3Upload } from './s3-upload.ts'
import { isPicture, isStorageKey, OWNER, parseVariantName, stemOf, storagePath,
  VARIANTS_FOLDER } from './storage-key.ts'

/** For all uploads of the process. Further ones are refused, so that slow clients can't fill the memory. */
const MAX_BUFFERED_BYTES = 192 * 1024 * 1024

interface Attributes {
  readonly ContentLength?: number | undefined
  readonly LastModified?: Date | undefined
  readonly ETag?: string | undefined
}

/** Stores uploads in a bucket of Amazon S3 or a compatible service; see docs/adr/0014-object-storage.md. */
export class S3Store implements FileStore {
  readonly place: string
  readonly filesAtOnce = 8
  readonly #bucket: Bucket
  readonly #partBytes: number
  readonly #log: Pick<FastifyBaseLogger, 'error'>
  #bufferedBytes = 0

  constructor (settings: S3Settings, log: Pick<FastifyBaseLogger, 'error'>) {
    this.place = `UPLOADS_URL ${settings.UPLOADS_URL}`
    this.#bucket = new Bucket(settings, log)
    this.#partBytes = partBytesFor(settings.MAX_UPLOAD_BYTES ?? 0)
    this.#log = log
  }

  async prepare (): Promise<void> {
    const bucket = this.#bucket
    const place = { Bucket: bucket.name, Prefix: bucket.prefix }
    const probe = bucket.object(`.tmp/${randomPublicId()}`)
    try {
      await bucket.send(new ListObjectsV2Command({ ...place, MaxKeys: 1 }))
      await bucket.send(new ListMultipartUploadsCommand({ ...place, MaxUploads: 1 }))
      await bucket.send(new PutObjectCommand({ ...probe, Body: 'x' }))
      const { Body } = await bucket.send(new GetObjectCommand(probe))
      await Body?.transformToString()
      await bucket.send(new DeleteObjectCommand(probe))
    } catch (error) {
      const { code, message: cause } = reasonOf(error)
      const reason = hintOf(error, bucket.name) ?? `${code === 'Error' ? '' : `${code}: `}${cause}`
      const message = `${this.place} must be a bucket that the service can write to, but it is not ` +
        `(${reason.replaceAll(/\s+/g, ' ')})`
      throw new Error(message, { cause: error })
    }
  }

  async receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile> {
    const upload = new S3Upload(this.#bucket, this.#partBytes, (change) => {
      this.#bufferedBytes += change
      if (change <= 0 || this.#bufferedBytes <= MAX_BUFFERED_BYTES) return
      this.#log.error({ bufferedBytes: this.#bufferedBytes }, 'an upload was refused: too much memory in use')
      throw createUnavailableError()
    })
    return await upload.receive(source, inspect)
  }

  async open (key: string, whole: boolean): Promise<OpenFile | undefined> {
    return whole ? await this.#openWhole(storagePath(key)) : await this.#openParts(key)
  }

  async #openWhole (path: string): Promise<OpenFile | undefined> {
    const response = await this.#bucket.find(new GetObjectCommand(this.#bucket.object(path)))
    if (response === undefined) return undefined
    const stream = withIdleTimeout(response.Body as Readable, this.#bucket.timeoutMs)
    return {
      ...infoOf(response),
      read: async () => stream,
      close: async () => {
        stream.destroy()
      }
    }
  }

  async #openParts (key: string): Promise<OpenFile | undefined> {
    const info = await this.stat(key)
    if (info === undefined) return undefined
    return {
      ...info,
      read: async (first = 0, last = info.byteSize - 1) => {
        const range = { Range: `bytes=${first}-${last}`, IfMatch: info.etag }
        const response = await this.#bucket
          .find(new GetObjectCommand({ ...this.#objectOf(key), ...range }))
        if (response === undefined) throw new NotFoundError() // removed in between
        return withIdleTimeout(response.Body as Readable, this.#bucket.timeoutMs)
      },
      close: async () => {}
    }
  }

  async stat (key: string): Promise<FileInfo | undefined> {
    const response = await this.#bucket.find(new HeadObjectCommand(this.#objectOf(key)))
    return response && infoOf(response)
  }

  async remove (key: string): Promise<boolean> {
    await this.#delete(storagePath(key))
    if (isPicture(key)) await this.removeVariants(stemOf(key))
    return true
  }

  async removeVariants (stem: string): Promise<void> {
    for await (const { Contents = [] } of this.#list(`${VARIANTS_FOLDER}/${stem}/`)) {
      for (const { Key = '' } of Contents) await this.#delete(Key.slice(this.#bucket.prefix.length))
    }
  }

  async #delete (path: string): Promise<void> {
    await this.#bucket.request(new DeleteObjectCommand(this.#bucket.object(path)))
  }

  /** Checks only that the bucket answers: `prepare` has tried to delete. */
  async assertWritable (): Promise<void> {
    await this.#bucket.request(new HeadBucketCommand({ Bucket: this.#bucket.name }))
  }

  async owner (): Promise<string | undefined> {
    const file = await this.#openWhole(OWNER)
    return file && (await text(await file.read())).trim()
  }

  #objectOf (name: string): { Bucket: string, Key: string } {
    return this.#bucket.object(storagePath(name))
  }

  async setOwner (id: string): Promise<void> {
    await this.#bucket.request(new PutObjectCommand({ ...this.#bucket.object(OWNER), Body: `${id}\n` }))
  }

  async *keys (): AsyncGenerator<string> {
    for await (const { Contents = [] } of this.#list('')) {
      for (const { Key = '' } of Contents) {
        const key = Key.slice(this.#bucket.prefix.length)
        if (isStorageKey(key)) yield key
      }
    }
  }

  async *stemsWithVariants (): AsyncGenerator<string> {
    const folder = `${VARIANTS_FOLDER}/`
    const stemStart = this.#bucket.prefix.length + folder.length
    for await (const { CommonPrefixes = [] } of this.#list(folder)) {
      for (const { Prefix = '' } of CommonPrefixes) {
        const stem = Prefix.slice(stemStart, -1)
        if (isPublicId(stem)) yield stem
      }
    }
  }

  /** Lists the objects in a folder, and the folders in it. `path` is empty or ends with a slash. */
  async *#list (path: string): AsyncGenerator<ListObjectsV2CommandOutput> {
    const { name, prefix } = this.#bucket
    const place = { Bucket: name, Prefix: prefix + path, Delimiter: '/' }
    let token: string | undefined
    do {
      const page: ListObjectsV2CommandOutput = await this.#bucket
        .request(new ListObjectsV2Command({ ...place, ContinuationToken: token }))
      yield page
      token = page.NextContinuationToken
    } while (token !== undefined && token !== '')
  }

  async removeUnfinished (ageMs: number, signal?: AbortSignal): Promise<number> {
    const place = { Bucket: this.#bucket.name, Prefix: this.#bucket.prefix }
    let removed = 0
    let at: { readonly KeyMarker?: string | undefined, readonly UploadIdMarker?: string | undefined } = {}
    for (;;) {
      const page: ListMultipartUploadsCommandOutput = await this.#bucket
        .request(new ListMultipartUploadsCommand({ ...place, ...at }))
      for (const { Key = '', UploadId, Initiated } of page.Uploads ?? []) {
        if (signal?.aborted === true) return removed
        // S3 reports when an upload began, not when it last changed. The cleanup waits for an hour, and no
        // upload lasts that long.
        const isOld = Initiated !== undefined && Date.now() - Initiated.getTime() >= ageMs
        if (!isOld || !isFileAt(Key.slice(place.Prefix.length))) continue
        if (await this.#abortUpload(Key, UploadId)) removed++
      }
      if (page.IsTruncated !== true) return removed
      at = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
    }
  }

  /** @returns false when another replica has already aborted the upload */
  async #abortUpload (Key: string, UploadId: string | undefined): Promise<boolean> {
    try {
      await this.#bucket.send(new AbortMultipartUploadCommand({ Bucket: this.#bucket.name, Key, UploadId }))
      return true
    } catch (error) {
      if (reasonOf(error).code === 'NoSuchUpload') return false
      throw this.#bucket.translate(error)
    }
  }

  async copyOut (key: string, path: string): Promise<number | undefined> {
    const file = await this.#openWhole(storagePath(key))
    if (file === undefined) return undefined
    const handle = await open(path, 'wx')
    try {
      await pipeline(await file.read(), handle.createWriteStream())
      return file.byteSize
    } catch (error) {
      await rm(path, { force: true })
      throw error
    } finally {
      await file.close()
      await handle.close().catch(() => {})
    }
  }

  async copyIn (path: string, key: string): Promise<number | undefined> {
    try {
      if (!(await lstat(path)).isFile()) return undefined
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
    const staged = await this.receive(createReadStream(path), async () => ({ key }))
    await staged.publish()
    return staged.byteSize
  }

  async prepareRestore (): Promise<(() => Promise<void>) | undefined> {
    if ((await this.keys().next()).done !== true) return undefined
    await this.#delete(OWNER)
    return async () => {
      for await (const key of this.keys()) await this.remove(key)
    }
  }

  async sync (): Promise<void> {}

  close (): void {
    this.#bucket.close()
  }
}

/** Whether a path is that of a file that the service may have stored. */
const isFileAt = (path: string): boolean =>
  isStorageKey(path) || (path.startsWith(`${VARIANTS_FOLDER}/`) &&
    parseVariantName(path.slice(VARIANTS_FOLDER.length + 1)) !== undefined)

const infoOf = ({ ContentLength = 0, LastModified = new Date(0), ETag = '' }: Attributes): FileInfo => ({
  byteSize: ContentLength,
  modifiedAt: LastModified,
  publishedAtMs: LastModified.getTime(),
  etag: ETag
})
