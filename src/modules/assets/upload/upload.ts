import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Asset } from '../../../infra/postgres/generated/prisma/client.ts'
import { EncodedBodyError, InvalidError, UnsupportedMediaTypeError } from '../../../errors.ts'
import { confirmCaller } from '../../accounts/index.ts'
import { isEncoded } from '../../../http/json-body.ts'
import { dimensionsSpan, HEADER_BYTES, readDimensions } from './dimensions.ts'
import { JpegDimensionsReader } from './jpeg-dimensions.ts'
import type { Dimensions } from './orientation.ts'
import type { FileStore, StagedFile } from '../storage/file-store.ts'
import { cleanFilename } from './filename.ts'
import { receiveFile } from './multipart-reader.ts'
import { createAsset, isInsertWithoutEffect, type NewAsset } from '../asset-repository.ts'
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

  /** For an INSERT without a response. The file must stay as long as the row may still appear. */
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
    let asset: NewAsset
    try {
      asset = { userId: request.caller.userId, ...describe(stored, config.ALLOWED_UPLOAD_TYPES) }
    } catch (error) {
      await stored.discard()
      throw error
    }
    await stored.publish()
    let mayHaveRow = false
    try {
      // The session may have ended while a large file arrived.
      await confirmCaller(request)
      mayHaveRow = true
      return await createAsset(database, asset)
    } catch (error) {
      if (mayHaveRow && !isInsertWithoutEffect(error)) removeLaterUnlessReferenced(asset.storageKey)
      else await files.remove(asset.storageKey).catch(() => {}) // logged; the cleanup will remove it
      throw error
    }
  }
}

/** A staged file with what was detected from its first bytes. */
interface InspectedFile extends StagedFile {
  readonly key: string
  readonly filename: string
  readonly type: ContentType
  readonly head: Uint8Array
  readonly jpegDimensions: Dimensions | undefined
}

async function receive (
  store: FileStore,
  stream: AsyncIterable<Uint8Array>,
  claimedType: string,
  filename: string
): Promise<InspectedFile> {
  const jpeg = new JpegDimensionsReader()
  let detected: Pick<InspectedFile, 'key' | 'type' | 'head'> | undefined
  const staged = await store.receive(jpeg.observe(stream), async (head) => {
    const type = await contentTypeOf(head, claimedType)
    const key = newStorageKey(type.type)
    detected = { key, type, head: head.slice(0, HEADER_BYTES) }
    return { key, filename, excerpt: dimensionsSpan(head, type.type) }
  })
  const { dimensions: jpegDimensions } = jpeg
  return { ...staged, filename, jpegDimensions, ...detected as NonNullable<typeof detected> }
}

function describe (
  stored: InspectedFile,
  allowed: readonly string[]
): Omit<NewAsset, 'userId'> {
  const { key, filename, type, head, excerpt, jpegDimensions } = stored
  if (!isAllowed(type, allowed)) {
    throw new InvalidError([`File has a type that is not allowed (${type.type})`])
  }
  const dimensions = type.type === 'image/jpeg' ? jpegDimensions : readDimensions(excerpt, head, type.type)
  return {
    storageKey: key,
    filename,
    contentType: type.type,
    byteSize: BigInt(stored.byteSize),
    checksum: stored.checksum,
    width: dimensions?.width ?? null,
    height: dimensions?.height ?? null
  }
}
