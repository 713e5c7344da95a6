import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Asset } from '../generated/prisma/client.ts'
import { EncodedBodyError, InvalidError, UnsupportedMediaTypeError } from '../errors.ts'
import { confirmSession } from '../plugins/authenticate.ts'
import { isEncoded } from '../plugins/json-body.ts'
import { dimensionsIn, HEADER_BYTES, spanOfDimensions } from './dimensions.ts'
import type { FileStore, StagedFile } from './file-store.ts'
import { cleanFilename } from './filename.ts'
import { receiveFile, type ReceivedFile } from './multipart-reader.ts'
import { createAsset, hasNoRow, type NewAsset } from './repository.ts'
import { contentTypeOf, isAllowed, type ContentType } from './sniff.ts'
import { newStorageKey } from './storage-key.ts'
import { removeUnlessReferenced } from './sweep.ts'

/** By when a statement that timed out has committed or never will, whatever its timeout was. */
const SETTLE_MS = 10_000

/** 415 for every body that is no form with files, before any parser sees it. */
export const requireMultipart: onRequestHookHandler = (request, _reply, done) => {
  const isMultipart = /^multipart\/form-data\s*(;|$)/i.test(request.headers['content-type'] ?? '')
  if (!isMultipart) done(new UnsupportedMediaTypeError('Content-Type must be multipart/form-data'))
  else if (isEncoded(request)) done(new EncodedBodyError())
  else done()
}

/** Makes the function that takes an upload: the form, the file, the row, in this order. */
export function uploader (app: FastifyInstance, store: FileStore): (request: FastifyRequest) => Promise<Asset> {
  const { config, database } = app
  const doubts = new Set<NodeJS.Timeout>()
  app.addHook('onClose', async () => { for (const timer of doubts) clearTimeout(timer) })

  /** The answer to an INSERT got lost: nobody may remove the file while the row may still appear. */
  function settleLater (key: string): void {
    const timer = setTimeout(() => {
      doubts.delete(timer)
      removeUnlessReferenced(database, store, key)
        .catch((error: unknown) => app.log.warn({ err: error }, 'an upload in doubt is left to the sweep'))
    }, 2 * config.DATABASE_TIMEOUT_MS + SETTLE_MS)
    doubts.add(timer.unref())
  }

  return async (request) => {
    const received = await receiveFile(request, config.MAX_UPLOAD_BYTES, async (stream, claimedType) => await receive(store, stream, claimedType))
    const { stored } = received
    let asset: NewAsset
    try {
      asset = { userId: request.session.userId, ...describe(received, config.ALLOWED_UPLOAD_TYPES) }
    } catch (error) {
      await stored.discard()
      throw error
    }
    await stored.publish()
    let mayHaveRow = false
    try {
      // Only now: a large file takes a while to arrive, and in a bucket to be put together.
      await confirmSession(database, request)
      mayHaveRow = true
      return await createAsset(database, asset)
    } catch (error) {
      if (!mayHaveRow || hasNoRow(error)) await store.remove(asset.storageKey)
      else settleLater(asset.storageKey)
      throw error
    }
  }
}

/** A staged file, with what its first bytes say of it. */
interface InspectedFile extends StagedFile {
  readonly key: string
  readonly type: ContentType
  readonly head: Uint8Array
}

async function receive (store: FileStore, stream: AsyncIterable<Uint8Array>, claimedType: string): Promise<InspectedFile> {
  let seen: Pick<InspectedFile, 'key' | 'type' | 'head'> | undefined
  const staged = await store.receive(stream, async (head) => {
    const type = await contentTypeOf(head, claimedType)
    const key = newStorageKey(type.type)
    seen = { key, type, head: head.slice(0, HEADER_BYTES) }
    return { key, wanted: spanOfDimensions(head, type.type) }
  })
  return { ...staged, ...seen as NonNullable<typeof seen> }
}

function describe ({ stored, filename }: ReceivedFile<InspectedFile>, allowed: readonly string[]): Omit<NewAsset, 'userId'> {
  const { key, type, head } = stored
  if (!isAllowed(type, allowed)) throw new InvalidError([`File has a type that is not allowed (${type.type})`])
  const dimensions = dimensionsIn(stored.wanted, head, type.type)
  return {
    storageKey: key,
    filename: cleanFilename(filename),
    contentType: type.type,
    byteSize: BigInt(stored.byteSize),
    checksum: stored.checksum,
    width: dimensions?.width ?? null,
    height: dimensions?.height ?? null
  }
}
