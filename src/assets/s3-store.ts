import { createReadStream } from 'node:fs'
import { lstat, open, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { AbortMultipartUploadCommand, DeleteObjectCommand, GetObjectCommand, HeadBucketCommand, HeadObjectCommand, ListMultipartUploadsCommand, ListObjectsV2Command, PutObjectCommand, type ListMultipartUploadsCommandOutput } from '@aws-sdk/client-s3'
import type { FastifyBaseLogger } from 'fastify'
import { NotFoundError, unavailable } from '../errors.ts'
import { isMissing } from '../folders.ts'
import { randomPublicId } from '../identifiers.ts'
import type { FileInfo, FileStore, Inspect, OpenFile, StagedFile } from './file-store.ts'
import { Bucket, hintOf, isAbsent, reasonOf, type S3Settings } from './s3-client.ts'
import { partBytesFor, S3Upload } from './s3-upload.ts'
import { isStorageKey, OWNER } from './storage-key.ts'

// Files as objects of a bucket: Amazon S3, or any storage that speaks its protocol.

/** Of uploads under way, in this process. What would go beyond it is refused, so that slow clients can't fill the memory. */
const MOST_BUFFERED_BYTES = 192 * 1024 * 1024

interface Attributes {
  readonly ContentLength?: number | undefined
  readonly LastModified?: Date | undefined
  readonly ETag?: string | undefined
}

/** A bucket of uploaded files. */
export class S3Store implements FileStore {
  readonly place: string
  readonly filesAtOnce = 8
  readonly #bucket: Bucket
  readonly #partBytes: number
  readonly #log: Pick<FastifyBaseLogger, 'error'>
  #bufferedBytes = 0

  private constructor (url: string, bucket: Bucket, partBytes: number, log: Pick<FastifyBaseLogger, 'error'>) {
    this.place = `UPLOADS_URL ${url}`
    this.#bucket = bucket
    this.#partBytes = partBytes
    this.#log = log
  }

  static of (settings: S3Settings, log: Pick<FastifyBaseLogger, 'error'>): S3Store {
    return new S3Store(settings.UPLOADS_URL, new Bucket(settings, log), partBytesFor(settings.MAX_UPLOAD_BYTES ?? 0), log)
  }

  /** Tries all that the service will do. */
  async prepare (): Promise<void> {
    const { name: bucket, prefix } = this.#bucket
    const probe = { Bucket: bucket, Key: `${prefix}.tmp/${randomPublicId()}` }
    try {
      await this.#bucket.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: 1 }))
      await this.#bucket.send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: prefix, MaxUploads: 1 }))
      await this.#bucket.send(new PutObjectCommand({ ...probe, Body: 'x' }))
      await this.#bucket.send(new GetObjectCommand(probe)).then(async ({ Body }) => await Body?.transformToString())
      await this.#bucket.send(new DeleteObjectCommand(probe))
    } catch (error) {
      const { code, message } = reasonOf(error)
      const reason = hintOf(error, bucket) ?? `${code === 'Error' ? '' : `${code}: `}${message}`
      throw new Error(`${this.place} must be a bucket that the service can write to, which it is not (${reason.replaceAll(/\s+/g, ' ')})`, { cause: error })
    }
  }

  async receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile> {
    const upload = new S3Upload(this.#bucket, this.#partBytes, (change) => {
      this.#bufferedBytes += change
      if (change <= 0 || this.#bufferedBytes <= MOST_BUFFERED_BYTES) return
      this.#log.error({ bufferedBytes: this.#bufferedBytes }, 'an upload is refused: those under way hold too much memory')
      throw unavailable()
    })
    return await upload.receive(source, inspect)
  }

  async open (key: string, whole: boolean): Promise<OpenFile | undefined> {
    if (whole) {
      const answer = await this.#find(async () => await this.#bucket.send(new GetObjectCommand(this.#object(key))))
      if (answer === undefined) return undefined
      const stream = guarded(answer.Body as Readable, this.#bucket.timeoutMs)
      return { ...infoOf(answer), read: async () => stream, close: async () => { stream.destroy() } }
    }
    const info = await this.look(key)
    if (info === undefined) return undefined
    return {
      ...info,
      read: async (first = 0, last = info.byteSize - 1) => {
        const part = { ...this.#object(key), Range: `bytes=${first}-${last}`, IfMatch: info.etag }
        const answer = await this.#find(async () => await this.#bucket.send(new GetObjectCommand(part)))
        if (answer === undefined) throw new NotFoundError() // removed in between
        return guarded(answer.Body as Readable, this.#bucket.timeoutMs)
      },
      close: async () => {}
    }
  }

  async look (key: string): Promise<FileInfo | undefined> {
    const answer = await this.#find(async () => await this.#bucket.send(new HeadObjectCommand(this.#object(key))))
    return answer && infoOf(answer)
  }

  async remove (key: string): Promise<void> {
    await this.delete(key).catch(() => {}) // it has been logged
  }

  async delete (key: string): Promise<boolean> {
    await this.#try(async () => await this.#bucket.send(new DeleteObjectCommand(this.#object(key))))
    return true
  }

  /** The permission to delete was tried at the start. */
  async assertWritable (): Promise<void> {
    await this.#try(async () => await this.#bucket.send(new HeadBucketCommand({ Bucket: this.#bucket.name })))
  }

  async owner (): Promise<string | undefined> {
    const file = await this.open(OWNER, true)
    return file && (await text(await file.read())).trim()
  }

  async setOwner (id: string): Promise<void> {
    await this.#try(async () => await this.#bucket.send(new PutObjectCommand({ ...this.#object(OWNER), Body: `${id}\n` })))
  }

  async * keys (signal?: AbortSignal): AsyncGenerator<string> {
    const { name, prefix } = this.#bucket
    let token: string | undefined
    do {
      const { Contents = [], NextContinuationToken } = await this.#try(async () => await this.#bucket.send(
        new ListObjectsV2Command({ Bucket: name, Prefix: prefix, Delimiter: '/', ContinuationToken: token })
      ))
      for (const { Key = '' } of Contents) {
        if (signal?.aborted === true) return
        if (isStorageKey(Key.slice(prefix.length))) yield Key.slice(prefix.length)
      }
      token = NextContinuationToken
    } while (token !== undefined && token !== '')
  }

  /** By when they began: no request lasts as long as the sweep waits. */
  async removeUnfinished (ageMs: number, signal?: AbortSignal): Promise<number> {
    const { name: bucket, prefix } = this.#bucket
    let removed = 0
    let at: { readonly KeyMarker?: string | undefined, readonly UploadIdMarker?: string | undefined } = {}
    for (;;) {
      const command = new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: prefix, ...at })
      const page: ListMultipartUploadsCommandOutput = await this.#try(async () => await this.#bucket.send(command))
      for (const { Key = '', UploadId, Initiated } of page.Uploads ?? []) {
        if (signal?.aborted === true) return removed
        if (!isStorageKey(Key.slice(prefix.length)) || Initiated === undefined || Date.now() - Initiated.getTime() < ageMs) continue
        try {
          await this.#bucket.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId }))
          removed++
        } catch (error) {
          if (reasonOf(error).code !== 'NoSuchUpload') throw this.#bucket.translate(error) // else another replica was faster
        }
      }
      if (page.IsTruncated !== true) return removed
      at = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
    }
  }

  async copyOut (key: string, path: string): Promise<number | undefined> {
    const file = await this.open(key, true)
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
    const staged = await this.receive(createReadStream(path), async () => ({ key, wanted: undefined }))
    await staged.publish()
    return staged.byteSize
  }

  async reserve (): Promise<(() => Promise<void>) | undefined> {
    if ((await this.keys().next()).done !== true) return undefined
    await this.delete(OWNER)
    return async () => { for await (const key of this.keys()) await this.delete(key) }
  }

  /** What the storage has answered for, it keeps. */
  async sync (): Promise<void> {}

  close (): void {
    this.#bucket.close()
  }

  #object (key: string): { Bucket: string, Key: string } {
    return { Bucket: this.#bucket.name, Key: `${this.#bucket.prefix}${key}` }
  }

  async #find<T> (action: () => Promise<T>): Promise<T | undefined> {
    return await this.#try(async () => {
      try {
        return await action()
      } catch (error) {
        if (isAbsent(error)) return undefined
        throw error
      }
    })
  }

  async #try<T> (action: () => Promise<T>): Promise<T> {
    try {
      return await action()
    } catch (error) {
      throw this.#bucket.translate(error)
    }
  }
}

function infoOf ({ ContentLength = 0, LastModified = new Date(0), ETag = '' }: Attributes): FileInfo {
  return { byteSize: ContentLength, modifiedAt: LastModified, namedAtMs: LastModified.getTime(), etag: ETag }
}

/**
 * The bytes of an object, at the speed of whoever reads them. What waits for the storage is given up after `idleMs`; how
 * long a reader may take is not decided here. Destroying the stream frees the connection at once.
 */
function guarded (body: Readable, idleMs: number): Readable {
  let timer: NodeJS.Timeout | undefined
  const fail = (error: Error) => {
    clearTimeout(timer)
    stream.destroy(error)
  }
  const wait = () => {
    clearTimeout(timer)
    timer = setTimeout(() => fail(new Error('the object storage has stopped in the middle of a file')), idleMs)
  }
  const stream = new Readable({
    highWaterMark: 64 * 1024,
    read () {
      wait()
      body.resume()
    },
    destroy (error, done) {
      clearTimeout(timer)
      body.destroy()
      done(error)
    }
  })
  body.on('data', (chunk: Uint8Array) => {
    if (stream.push(chunk)) return wait()
    clearTimeout(timer)
    body.pause()
  })
  body.on('end', () => {
    clearTimeout(timer)
    stream.push(null)
  })
  body.on('error', fail)
  stream.on('error', () => {}) // whoever reads it listens, and nobody may
  body.on('close', () => { if (!body.readableEnded) fail(new Error('the object storage has ended in the middle of a file')) })
  body.pause()
  return stream
}
