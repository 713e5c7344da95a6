import { buffer } from 'node:stream/consumers'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Registry } from 'prom-client'
import type { Asset } from '../../../infra/postgres/generated/prisma/client.ts'
import { EncodedBodyError, InvalidError, UnauthorizedError,
  UnsupportedMediaTypeError } from '../../../errors.ts'
import { confirmCaller } from '../../accounts/index.ts'
import { isEncoded } from '../../../http/json-body.ts'
import { isDatabaseUnavailable } from '../../../infra/postgres/unavailable.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { readDimensions } from './dimensions.ts'
import type { FileStore, StagedFile } from '../storage/file-store.ts'
import { cleanFilename } from './filename.ts'
import { receiveFile } from './multipart-reader.ts'
import { createAsset, type NewAsset } from '../asset-repository.ts'
import { contentTypeOf, isAllowed, type ContentType } from './sniff.ts'
import { newStorageKey } from '../storage/storage-key.ts'
import { removeUnlessReferenced } from '../cleanup.ts'

/** Time after which a statement that timed out has either committed or been rolled back. */
const SETTLE_MS = 10_000

/** An `onRequest` hook that refuses bodies of other types with a 415, before they are parsed. */
export const requireMultipart: onRequestHookHandler = (request, _reply, done) => {
  const isMultipart = /^multipart\/form-data\s*(;|$)/i.test(request.headers['content-type'] ?? '')
  if (!isMultipart) done(new UnsupportedMediaTypeError('Content-Type must be multipart/form-data'))
  else if (isEncoded(request)) done(new EncodedBodyError())
  else done()
}

/** Creates the function that stores the file of a request and then inserts its row. */
export function createUploadHandler (app: FastifyInstance): (request: FastifyRequest) => Promise<Asset> {
  const { config, database, files } = app
  const timers = new Set<NodeJS.Timeout>()
  app.addHook('onClose', async () => {
    for (const timer of timers) clearTimeout(timer)
  })

  /** For an INSERT that failed: it may still commit, and the row must not be without its file. */
  function removeLaterUnlessReferenced (key: string): void {
    const timer = setTimeout(() => {
      timers.delete(timer)
      removeUnlessReferenced(database, files, key)
        .catch((error: unknown) =>
          app.log.warn({ err: error }, 'a file that may have no row is left to the cleanup')
        )
    }, 2 * config.DATABASE_TIMEOUT_MS + SETTLE_MS)
    timers.add(timer.unref())
  }

  return async (request) => {
    const stored = await receiveFile(
      request,
      config.MAX_UPLOAD_BYTES,
      async (stream, claimedType, name) => await receive(files, stream, claimedType, cleanFilename(name))
    )
    const { key, type } = stored
    if (!isAllowed(type, config.ALLOWED_UPLOAD_TYPES)) {
      await stored.discard()
      throw new InvalidError([`File has a type that is not allowed (${type.name})`])
    }
    await stored.publish()
    let mayHaveRow = false
    try {
      const asset = await describe(files, stored)
      // The session may have ended while a large file arrived.
      await confirmCaller(request)
      mayHaveRow = true
      return await createAsset(database, { userId: request.caller.userId, ...asset })
    } catch (error) {
      if (mayHaveRow && !(error instanceof UnauthorizedError)) removeLaterUnlessReferenced(key)
      else await files.remove(key).catch(() => {}) // logged; the cleanup will remove it
      throw error
    }
  }
}

/** A staged file with its first bytes, and what was detected from them. */
interface InspectedFile extends StagedFile {
  readonly key: string
  readonly filename: string
  readonly type: ContentType
  /** As many as sniffing needs, or all of a smaller file. */
  readonly firstBytes: Uint8Array
}

async function receive (
  store: FileStore,
  stream: AsyncIterable<Uint8Array>,
  claimedType: string,
  filename: string
): Promise<InspectedFile> {
  let detected: Pick<InspectedFile, 'key' | 'type' | 'firstBytes'> | undefined
  const staged = await store.receive(stream, async (firstBytes) => {
    const type = await contentTypeOf(firstBytes, claimedType)
    const key = newStorageKey(type.name)
    detected = { key, type, firstBytes }
    return { key, filename }
  })
  return { ...staged, filename, ...detected as NonNullable<typeof detected> }
}

/** Describes a published file. @throws {RetryLaterError} 503 if the storage can't be read */
async function describe (store: FileStore, stored: InspectedFile): Promise<Omit<NewAsset, 'userId'>> {
  const { key, filename, type: { name: contentType }, byteSize, firstBytes } = stored
  /** Reads a part of the file, as far as there is one. */
  async function readPart (position: number, length: number): Promise<Uint8Array> {
    const end = Math.min(position + length, byteSize)
    if (end <= firstBytes.length) return firstBytes.subarray(position, end)
    const file = position < end ? await store.open(key, false) : undefined
    return file === undefined ? new Uint8Array() : await buffer(await file.read(position, end - 1))
  }
  const dimensions = await readDimensions(firstBytes, contentType, readPart)
  return {
    storageKey: key,
    filename,
    contentType,
    byteSize: BigInt(byteSize),
    checksum: stored.checksum,
    width: dimensions?.width ?? null,
    height: dimensions?.height ?? null
  }
}

const NONE = {
  stored: 0,
  refused: 0,
  too_large: 0,
  disk_full: 0,
  storage_away: 0,
  database_away: 0,
  aborted: 0,
  failed: 0
}

type Result = keyof typeof NONE

const BY_STATUS: Readonly<Record<number, Result>> = {
  413: 'too_large',
  503: 'storage_away',
  507: 'disk_full'
}

/** Wraps the upload handler with metrics. */
export function countUploads (
  registry: Registry,
  upload: (request: FastifyRequest) => Promise<Asset>
): (request: FastifyRequest) => Promise<Asset> {
  const results = { ...NONE }
  let bytes = 0
  let running = 0
  addMetrics(registry, {
    landfall_uploads_total: ['Uploads by their result', () => results, { label: 'result' }],
    landfall_upload_bytes_total: ['Bytes of stored files', () => bytes],
    landfall_uploads_in_flight: ['Uploads that are being received or stored', () => running]
  })
  return async (request) => {
    running++
    try {
      const asset = await upload(request)
      results.stored++
      bytes += Number(asset.byteSize)
      return asset
    } catch (error) {
      results[resultOf(error, request)]++
      throw error
    } finally {
      running--
    }
  }
}

function resultOf (error: unknown, request: FastifyRequest): Result {
  if (isDatabaseUnavailable(error)) return 'database_away'
  const { statusCode } = error as { statusCode?: number }
  // The error of an aborted request is a 400 for a malformed form.
  if (request.raw.destroyed && !request.raw.complete) return 'aborted'
  if (statusCode === undefined) return 'failed'
  return BY_STATUS[statusCode] ?? (statusCode < 500 ? 'refused' : 'failed')
}
