import type { Readable } from 'node:stream'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { DiskStore } from './disk-store.ts'

// Where the uploaded files are: a folder, or a bucket of an object storage. Only this file knows which.

declare module 'fastify' {
  interface FastifyInstance {
    files: FileStore
  }
}

/** Part of a file, in bytes. */
export interface Span {
  readonly position: number
  readonly length: number
}

/** What is made of the start of a file, while the rest of it may still be on its way. */
export interface Inspection {
  /** The name that the file is to get. */
  readonly key: string
  /** Bytes that are wanted when it has come. */
  readonly wanted: Span | undefined
}

/** @param head the first `SNIFF_BYTES` of the file, or all of it */
export type Inspect = (head: Uint8Array) => Promise<Inspection>

/** A complete file that nobody can see yet: `publish` or `discard` it. */
export interface StagedFile {
  readonly byteSize: number
  /** SHA-256, hex. */
  readonly checksum: string
  /** Those of the bytes that were wanted which the file has, in memory of their own. */
  readonly wanted: Uint8Array
  /** Gives the file its name, for good: it survives a crash once this resolves. */
  publish (): Promise<void>
  /** Removes it. Never fails; what can't be removed is left to the sweep. */
  discard (): Promise<void>
}

/** What is known of a published file without reading it. */
export interface FileInfo {
  readonly byteSize: number
  readonly modifiedAt: Date
  /** Since when it has been under its name, as far as that is known; in milliseconds since 1970. */
  readonly namedAtMs: number
  /** A strong entity tag, in its quotes. */
  readonly etag: string
}

/** A published file. Whoever has one reads it to its end, or closes it. */
export interface OpenFile extends FileInfo {
  /**
   * Its bytes; destroying the stream frees what is behind it. May be called once.
   *
   * @param last position of the last byte
   */
  read (first?: number, last?: number): Promise<Readable>
  /** Frees what is behind it. Never fails. */
  close (): Promise<void>
}

/**
 * The uploaded files. Errors of what is behind it come out as `DiskFullError` (507) or a 503, with their reason in the
 * log.
 */
export interface FileStore {
  /** The setting that says where it is, with its value, for messages. */
  readonly place: string
  /** How many files it is worth copying or reading at a time. */
  readonly filesAtOnce: number

  /**
   * Makes what it needs, and tries it.
   *
   * @throws {Error} one line naming the setting, when files can't be stored there
   */
  prepare (): Promise<void>

  /**
   * Stores a stream, with little of it in memory at a time. If the stream fails, its error comes out and nothing is left
   * behind.
   */
  receive (source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile>

  /**
   * @param whole whether all of it is going to be read, so that its bytes may come with the first answer
   * @returns undefined when there is no published file of that name
   */
  open (key: string, whole: boolean): Promise<OpenFile | undefined>

  /** As `open`, without its bytes. */
  look (key: string): Promise<FileInfo | undefined>

  /** Removes a published file. Never fails; what can't be removed is left to the sweep. */
  remove (key: string): Promise<void>

  /** Removes a published file. @returns false when it was gone already */
  delete (key: string): Promise<boolean>

  /**
   * Refuses while files can't be removed, so that no row goes whose file would stay to be served.
   *
   * @throws {RetryLaterError} 503
   */
  assertWritable (): Promise<void>

  /** The id of the database that the files belong to; undefined when nobody has said so yet. */
  owner (): Promise<string | undefined>

  /** Notes the id of the database that the files belong to. */
  setOwner (id: string): Promise<void>

  /** The names in it that the service gives, whatever they stand for. @param signal ends it */
  keys (signal?: AbortSignal): AsyncIterable<string>

  /**
   * Removes what is left of uploads that have stood still for so long.
   *
   * @param ageMs in milliseconds
   * @returns how many
   */
  removeUnfinished (ageMs: number, signal?: AbortSignal): Promise<number>

  /** Copies a published file to a new one on the disk. @returns its size in bytes; undefined when it is not there */
  copyOut (key: string, path: string): Promise<number | undefined>

  /** Publishes a copy of a file on the disk. @returns its size in bytes; undefined when it is not there */
  copyIn (path: string, key: string): Promise<number | undefined>

  /**
   * Makes sure that it is there and empty, but for what it keeps beside the files. It belongs to no database then.
   *
   * @returns what removes everything that has been put there since; undefined when it is not empty
   */
  reserve (): Promise<(() => Promise<void>) | undefined>

  /** Returns when all that was copied in would survive a crash. */
  sync (signal?: AbortSignal): Promise<void>

  /** Frees connections. */
  close (): void
}

export type StorePlace = Pick<Config, 'UPLOADS_DIR'> & Partial<Pick<Config, 'UPLOADS_URL' | S3Setting>>
type S3Setting = 'AWS_REGION' | 'AWS_ENDPOINT_URL_S3' | 'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY' | 'AWS_SESSION_TOKEN' | 'S3_FORCE_PATH_STYLE' | 'S3_TIMEOUT_MS' | 'MAX_UPLOAD_BYTES'

/** The store that the settings name. It does nothing until it is asked to. */
export async function openFileStore (config: StorePlace, log: Pick<FastifyBaseLogger, 'error'>): Promise<FileStore> {
  if (config.UPLOADS_URL === undefined) return new DiskStore(config.UPLOADS_DIR, log)
  // The SDK takes 0.3 s and 20 MB to load.
  const { S3Store } = await import('./s3-store.ts')
  return S3Store.of({ ...config, UPLOADS_URL: config.UPLOADS_URL }, log)
}

export default fp(async (app) => {
  const files = await openFileStore(app.config, app.log)
  app.addHook('onClose', async () => files.close())
  await files.prepare()
  app.decorate('files', files)
}, { name: 'file-store' })
