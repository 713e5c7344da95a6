import type { Readable } from 'node:stream'

/** Bytes from the start of a file that are enough to detect its type. */
export const SNIFF_BYTES = 256 * 1024

/** The caller's decisions from the start of a file. The rest of the file may still be arriving. */
export interface Inspection {
  /** Name to publish the file under: a storage key, or the name of a variant. */
  readonly key: string
  /** Name that downloads of the file get, for storages that send it themselves. */
  readonly filename?: string
}

/** @param head the first SNIFF_BYTES of the file, or all of a smaller file */
export type Inspect = (head: Uint8Array) => Promise<Inspection>

/** A complete file that isn't visible yet. The caller must call `publish` or `discard`. */
export interface StagedFile {
  readonly byteSize: number
  /** SHA-256, hex. */
  readonly checksum: string
  /** Makes the file visible. Once this resolves, the file survives a crash. */
  publish(): Promise<void>
  /** Removes the file. Never rejects. If the file can't be removed now, the cleanup removes it later. */
  discard(): Promise<void>
}

export interface FileInfo {
  readonly byteSize: number
  readonly modifiedAt: Date
  /** When the file was published, or a later time; in milliseconds since 1970. */
  readonly publishedAtMs: number
  /** Strong entity tag, with its quotes. */
  readonly etag: string
}

/** An open file. The caller must read it to its end or close it. */
export interface OpenFile extends FileInfo {
  /**
   * Returns the bytes; destroying the stream closes the file. May be called once.
   *
   * @param last position of the last byte
   */
  read(first?: number, last?: number): Promise<Readable>
  /** Closes the file. Never rejects. */
  close(): Promise<void>
}

/**
 * Stores uploaded files and their variants: in a folder (DiskStore) or in a bucket (S3Store). Failures of the
 * storage are logged with their reason and thrown as `DiskFullError` (507) or `RetryLaterError` (503).
 */
export interface FileStore {
  /** Name and value of the setting that selects the storage, for messages. */
  readonly place: string
  /** Number of files to copy or read concurrently. */
  readonly filesAtOnce: number

  /**
   * Creates missing folders and checks that files can be stored.
   *
   * @throws {Error} when they can't; the message is one line that names the setting
   */
  prepare(): Promise<void>

  /** Stores a stream without holding all of it in memory. If this fails, nothing is left behind. */
  receive(source: AsyncIterable<Uint8Array>, inspect: Inspect): Promise<StagedFile>

  /**
   * Opens a published file.
   *
   * @param whole whether the caller will read all of it; a bucket then answers with a single request
   * @returns undefined when there is no such file
   */
  open(key: string, whole: boolean): Promise<OpenFile | undefined>

  /** Describes a published file. @returns undefined when there is no such file */
  stat(key: string): Promise<FileInfo | undefined>

  /** Removes a published file and its variants. @returns false if there certainly was no such file */
  remove(key: string): Promise<boolean>

  /** Removes all variants of a picture. `stem` is its storage key without the extension. */
  removeVariants(stem: string): Promise<void>

  /** Checks that files can be removed. @throws {RetryLaterError} 503 */
  assertWritable(): Promise<void>

  /** Returns the id of the database that the files belong to; undefined when none is recorded. */
  owner(): Promise<string | undefined>

  /** Records the id of the database that the files belong to. */
  setOwner(id: string): Promise<void>

  /** Lists the published files. Leaves out variants, and names that the service can't have created. */
  keys(): AsyncGenerator<string>

  /** Lists the stems of the pictures that have variants. */
  stemsWithVariants(): AsyncGenerator<string>

  /**
   * Removes unfinished uploads that have not changed for `ageMs` milliseconds.
   *
   * @returns their number
   */
  removeUnfinished(ageMs: number, signal?: AbortSignal): Promise<number>

  /** Copies a published file to a new file on disk. @returns its size; undefined when it is missing */
  copyOut(key: string, path: string): Promise<number | undefined>

  /** Publishes a copy of a file on disk. @returns its size; undefined when it is missing */
  copyIn(path: string, key: string): Promise<number | undefined>

  /**
   * Prepares an empty storage for a restore, and deletes the record of its owner.
   *
   * @returns a function that removes everything stored since; undefined when the storage isn't empty
   */
  prepareRestore(): Promise<(() => Promise<void>) | undefined>

  /** Syncs the files that were copied in, so that they survive a crash. */
  sync(signal?: AbortSignal): Promise<void>

  /** Closes idle connections. */
  close(): void
}
