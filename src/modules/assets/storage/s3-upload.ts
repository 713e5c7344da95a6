import { createHash } from 'node:crypto'
import { AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CreateMultipartUploadCommand,
  HeadObjectCommand, PutObjectCommand, UploadPartCommand, type CompletedPart } from '@aws-sdk/client-s3'
import { IMMUTABLE } from '../../../http/common-headers.ts'
import { SNIFF_BYTES, type Inspect, type Inspection, type StagedFile } from './file-store.ts'
import { reasonOf, type Bucket } from './s3-client.ts'
import { contentDisposition, DOWNLOAD, presentationOf, storagePath } from './storage-key.ts'

/** The smallest part that S3 accepts, except for the last one. */
const MIN_PART_BYTES = 5 * 1024 * 1024
const MAX_PARTS = 10_000

/** Returns the part size for files of at most `maxBytes`. An upload holds one part in memory. */
export const partBytesFor = (maxBytes: number): number =>
  Math.max(MIN_PART_BYTES, Math.ceil(maxBytes / MAX_PARTS))

/** Headers stored with an object, so that a CDN or the bucket sends the same headers as the service. */
function objectHeaders ({ key, filename }: Inspection) {
  const presentation = presentationOf(key) ?? DOWNLOAD
  return {
    ContentType: presentation.contentType,
    ContentDisposition: contentDisposition(presentation, filename),
    CacheControl: IMMUTABLE
  }
}

/**
 * One upload to a bucket. A small file stays in memory and is published by one PUT. A large file is sent as a
 * multipart upload, and its completion publishes the file.
 */
export class S3Upload {
  readonly #bucket: Bucket
  readonly #partBytes: number
  /** Called with each change of the bytes in memory. Throws when all uploads together have too many. */
  readonly #onBytes: (change: number) => void
  readonly #stop = new AbortController()
  readonly #hash = createHash('sha256')
  #byteSize = 0
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  #inspection: Inspection | undefined
  #uploadId: string | undefined
  readonly #parts: CompletedPart[] = []

  constructor (bucket: Bucket, partBytes: number, onBytes: (change: number) => void) {
    this.#bucket = bucket
    this.#partBytes = partBytes
    this.#onBytes = onBytes
  }

  async receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile> {
    try {
      for await (const chunk of source) {
        this.#take(chunk)
        if (this.#inspection === undefined && this.#pendingBytes >= SNIFF_BYTES) await this.#inspect(inspect)
        if (this.#pendingBytes >= this.#partBytes) await this.#sendPart()
      }
      if (this.#inspection === undefined) await this.#inspect(inspect)
      if (this.#uploadId !== undefined && this.#pendingBytes > 0) await this.#sendPart()
    } catch (error) {
      await this.discard()
      throw error
    }
    return {
      byteSize: this.#byteSize,
      checksum: this.#hash.digest('hex'),
      publish: async () => await this.#publish(),
      discard: async () => await this.discard()
    }
  }

  async discard (): Promise<void> {
    this.#stop.abort()
    this.#releaseBytes()
    const UploadId = this.#uploadId
    if (UploadId === undefined) return
    this.#uploadId = undefined
    try {
      await this.#bucket.send(new AbortMultipartUploadCommand({ ...this.#object, UploadId }))
    } catch (error) {
      if (reasonOf(error).code !== 'NoSuchUpload') this.#bucket.translate(error) // logs it
    }
  }

  get #key (): string {
    return (this.#inspection as Inspection).key
  }

  get #headers () {
    return objectHeaders(this.#inspection as Inspection)
  }

  get #object () {
    return this.#bucket.object(storagePath(this.#key))
  }

  #take (chunk: Uint8Array): void {
    this.#hash.update(chunk)
    this.#byteSize += chunk.byteLength
    this.#pending.push(chunk)
    this.#pendingBytes += chunk.byteLength
    this.#onBytes(chunk.byteLength)
  }

  async #inspect (inspect: Inspect): Promise<void> {
    const head = joined(this.#pending, this.#pendingBytes)
    this.#inspection = await inspect(head.subarray(0, SNIFF_BYTES))
  }

  async #sendPart (): Promise<void> {
    await this.#try(async (signal) => {
      if (this.#uploadId === undefined) {
        const begin = new CreateMultipartUploadCommand({ ...this.#object, ...this.#headers })
        this.#uploadId = (await this.#bucket.send(begin, { signal })).UploadId
      }
      const Body = joined(this.#pending, this.#pendingBytes)
      this.#pending = [Body]
      const part = { UploadId: this.#uploadId, PartNumber: this.#parts.length + 1 }
      const send = new UploadPartCommand({ ...this.#object, ...part, Body })
      const { ETag } = await this.#bucket.send(send, { signal, bytes: Body.byteLength })
      this.#parts.push({ ETag, PartNumber: part.PartNumber })
    })
    this.#releaseBytes()
  }

  async #publish (): Promise<void> {
    try {
      await this.#try(async (signal) =>
        this.#uploadId === undefined ? await this.#put(signal) : await this.#complete(signal)
      )
      this.#uploadId = undefined
    } catch (error) {
      await this.discard()
      throw error
    } finally {
      this.#releaseBytes()
    }
  }

  async #put (signal: AbortSignal): Promise<void> {
    const Body = joined(this.#pending, this.#pendingBytes)
    await this.#bucket.send(new PutObjectCommand({ ...this.#object, ...this.#headers, Body }), {
      signal,
      bytes: Body.byteLength
    })
  }

  async #complete (signal: AbortSignal): Promise<void> {
    const command = new CompleteMultipartUploadCommand({
      ...this.#object,
      UploadId: this.#uploadId,
      MultipartUpload: { Parts: this.#parts }
    })
    try {
      // The limit grows with the size, because some storages copy the parts into one object.
      await this.#bucket.send(command, { signal, bytes: this.#byteSize / 16 })
    } catch (error) {
      if (reasonOf(error).code !== 'NoSuchUpload') throw error
      // An earlier attempt may have succeeded although its response was lost.
      const { ContentLength } = await this.#bucket.send(new HeadObjectCommand(this.#object), { signal })
      if (ContentLength !== this.#byteSize) throw error
    }
  }

  #releaseBytes (): void {
    this.#onBytes(-this.#pendingBytes)
    this.#pending = []
    this.#pendingBytes = 0
  }

  async #try<T> (action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#stop
    try {
      return await action(signal)
    } catch (error) {
      // An upload that the service itself aborted is not a failure of the storage.
      throw signal.aborted ? error : this.#bucket.translate(error)
    }
  }
}

const joined = (chunks: readonly Uint8Array[], bytes: number): Uint8Array => Buffer.concat(chunks, bytes)
