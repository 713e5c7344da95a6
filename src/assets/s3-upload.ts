import { createHash } from 'node:crypto'
import { AbortMultipartUploadCommand, CompleteMultipartUploadCommand, CreateMultipartUploadCommand, HeadObjectCommand, PutObjectCommand, UploadPartCommand, type CompletedPart } from '@aws-sdk/client-s3'
import type { Inspect, Inspection, Span, StagedFile } from './file-store.ts'
import { reasonOf, type Bucket } from './s3-client.ts'
import { SNIFF_BYTES } from './sniff.ts'
import { presentationOf, YEAR_SECONDS } from './storage-key.ts'

// A file on its way into a bucket. A small one stays in memory until it is published, by one request. A large one is a
// multipart upload under its final key, which nobody can see before it is completed, and completing it is what
// publishes it. So nothing has to be copied, and what a crash leaves is no object.
//
// The SDK's own Upload (@aws-sdk/lib-storage) completes as soon as the stream ends, when it isn't known yet whether the
// rest of the form is right.

/** The least that storages take, but for the last part. */
const LEAST_PART_BYTES = 5 * 1024 * 1024
const MOST_PARTS = 10_000

/** Size of the parts of a file of at most so many bytes; two of them are in memory at a time. */
export const partBytesFor = (maxBytes: number): number => Math.max(LEAST_PART_BYTES, Math.ceil(maxBytes / MOST_PARTS))

/** What an object is given, so that a CDN or the bucket itself serves it as this service does. */
export function objectHeaders (key: string): { ContentType: string, ContentDisposition: string, CacheControl: string } {
  const { contentType = 'application/octet-stream', inline = false } = presentationOf(key) ?? {}
  return { ContentType: contentType, ContentDisposition: inline ? 'inline' : 'attachment', CacheControl: `public, max-age=${YEAR_SECONDS}, immutable` }
}

/** Takes a file piece by piece. */
export class S3Upload {
  readonly #bucket: Bucket
  readonly #partBytes: number
  /** Told how many more bytes are in memory, or how many fewer; throws when there are too many. */
  readonly #onBytes: (change: number) => void
  readonly #stop = new AbortController()
  readonly #hash = createHash('sha256')
  #byteSize = 0
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  #inspection: Inspection | undefined
  #wanted: Uint8Array = new Uint8Array()
  #wantedBytes = 0
  #uploadId: string | undefined
  readonly #parts: CompletedPart[] = []
  #sending: Promise<void> = Promise.resolve()
  #sendingBytes = 0

  constructor (bucket: Bucket, partBytes: number, onBytes: (change: number) => void) {
    this.#bucket = bucket
    this.#partBytes = partBytes
    this.#onBytes = onBytes
  }

  /** Nothing is left behind when it fails, with the error of the source or a translated one. */
  async receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile> {
    try {
      for await (const chunk of source) {
        this.#take(chunk)
        if (this.#inspection === undefined && this.#pendingBytes >= SNIFF_BYTES) await this.#inspect(inspect)
        if (this.#pendingBytes >= this.#partBytes) await this.#sendPart()
      }
      if (this.#inspection === undefined) await this.#inspect(inspect)
      if (this.#uploadId !== undefined) {
        if (this.#pendingBytes > 0) await this.#sendPart()
        await this.#sending
      }
    } catch (error) {
      await this.discard()
      throw error
    }
    return {
      byteSize: this.#byteSize,
      checksum: this.#hash.digest('hex'),
      wanted: this.#wanted.subarray(0, this.#wantedBytes),
      publish: async () => await this.#publish(),
      discard: async () => await this.discard()
    }
  }

  async discard (): Promise<void> {
    this.#stop.abort()
    await this.#sending.catch(() => {})
    this.#forgetBytes()
    const UploadId = this.#uploadId
    if (UploadId === undefined) return
    this.#uploadId = undefined
    try {
      await this.#bucket.send(new AbortMultipartUploadCommand({ ...this.#object, UploadId }))
    } catch (error) {
      if (reasonOf(error).code !== 'NoSuchUpload') this.#bucket.translate(error) // logged; the sweep will try again
    }
  }

  get #object (): { Bucket: string, Key: string } {
    return { Bucket: this.#bucket.name, Key: `${this.#bucket.prefix}${(this.#inspection as Inspection).key}` }
  }

  get #headers () {
    return objectHeaders((this.#inspection as Inspection).key)
  }

  #take (chunk: Uint8Array): void {
    this.#hash.update(chunk)
    this.#keepWanted(chunk, this.#byteSize)
    this.#byteSize += chunk.byteLength
    this.#pending.push(chunk)
    this.#pendingBytes += chunk.byteLength
    this.#onBytes(chunk.byteLength)
  }

  async #inspect (inspect: Inspect): Promise<void> {
    const head = joined(this.#pending, this.#pendingBytes)
    this.#inspection = await inspect(head.subarray(0, SNIFF_BYTES))
    const { wanted } = this.#inspection
    if (wanted === undefined) return
    this.#wanted = new Uint8Array(wanted.length)
    this.#keepWanted(head, 0)
  }

  #keepWanted (chunk: Uint8Array, position: number): void {
    const wanted = this.#inspection?.wanted
    if (wanted === undefined) return
    const from = Math.max(position, wanted.position)
    const to = Math.min(position + chunk.byteLength, end(wanted))
    if (from >= to) return
    this.#wanted.set(chunk.subarray(from - position, to - position), from - wanted.position)
    this.#wantedBytes = to - wanted.position
  }

  /** Returns when the part before it is there: one is sent while the next one comes. */
  async #sendPart (): Promise<void> {
    await this.#sending // first: if that part was refused, these bytes are still to be given back
    const body = joined(this.#pending, this.#pendingBytes)
    this.#pending = []
    this.#pendingBytes = 0
    this.#onBytes(-this.#sendingBytes)
    this.#sendingBytes = body.byteLength
    this.#uploadId ??= await this.#begin()
    const PartNumber = this.#parts.length + 1
    const part: CompletedPart = { PartNumber }
    this.#parts.push(part)
    this.#sending = this.#sent(body, PartNumber).then((etag) => { part.ETag = etag })
    this.#sending.catch(() => {}) // whoever waits for it hears of it
  }

  async #begin (): Promise<string> {
    const { UploadId } = await this.#try(async (signal) => await this.#bucket.send(new CreateMultipartUploadCommand({ ...this.#object, ...this.#headers }), { signal }))
    return UploadId as string
  }

  async #sent (Body: Uint8Array, PartNumber: number): Promise<string> {
    const command = new UploadPartCommand({ ...this.#object, UploadId: this.#uploadId, PartNumber, Body })
    const { ETag } = await this.#try(async (signal) => await this.#bucket.send(command, { signal, bytes: Body.byteLength }))
    return ETag as string
  }

  async #publish (): Promise<void> {
    try {
      await this.#try(async (signal) => this.#uploadId === undefined ? await this.#put(signal) : await this.#complete(signal))
      this.#uploadId = undefined
    } catch (error) {
      await this.discard()
      throw error
    } finally {
      this.#forgetBytes()
    }
  }

  async #put (signal: AbortSignal): Promise<void> {
    const Body = joined(this.#pending, this.#pendingBytes)
    await this.#bucket.send(new PutObjectCommand({ ...this.#object, ...this.#headers, Body }), { signal, bytes: Body.byteLength })
  }

  async #complete (signal: AbortSignal): Promise<void> {
    const command = new CompleteMultipartUploadCommand({ ...this.#object, UploadId: this.#uploadId, MultipartUpload: { Parts: this.#parts } })
    try {
      // Storages put large files together byte by byte.
      await this.#bucket.send(command, { signal, bytes: this.#byteSize / 16 })
    } catch (error) {
      if (reasonOf(error).code !== 'NoSuchUpload') throw error
      // The answer of an earlier try got lost, or somebody has aborted it.
      const { ContentLength } = await this.#bucket.send(new HeadObjectCommand(this.#object), { signal })
      if (ContentLength !== this.#byteSize) throw error
    }
  }

  #forgetBytes (): void {
    this.#onBytes(-this.#pendingBytes - this.#sendingBytes)
    this.#pending = []
    this.#pendingBytes = this.#sendingBytes = 0
  }

  async #try<T> (action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#stop
    try {
      return await action(signal)
    } catch (error) {
      // What was broken off by us is no failure of the storage.
      throw signal.aborted ? error : this.#bucket.translate(error)
    }
  }
}

const end = ({ position, length }: Span): number => position + length

const joined = (chunks: readonly Uint8Array[], bytes: number): Uint8Array => Buffer.concat(chunks, bytes)
