import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Asset } from '../generated/prisma/client.ts'
import { EncodedBodyError, InvalidError, UnsupportedMediaTypeError } from '../errors.ts'
import { isEncoded } from '../plugins/json-body.ts'
import { dimensionsOf, readAt } from './dimensions.ts'
import type { DiskStore, StagedFile } from './disk-store.ts'
import { cleanFilename } from './filename.ts'
import { receiveFile, type ReceivedFile } from './multipart-reader.ts'
import { createAsset, hasNoRow, type NewAsset } from './repository.ts'
import { contentTypeOf, isAllowed, SNIFF_BYTES } from './sniff.ts'
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
export function uploader (app: FastifyInstance, store: DiskStore): (request: FastifyRequest) => Promise<Asset> {
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
    const received = await receiveFile(request, config.MAX_UPLOAD_BYTES, async (stream) => await store.receive(stream))
    const { stored } = received
    let asset: NewAsset
    try {
      asset = { userId: request.session.userId, ...await describe(received, config.ALLOWED_UPLOAD_TYPES) }
    } catch (error) {
      await stored.discard()
      throw error
    }
    await stored.publish(asset.storageKey)
    try {
      return await createAsset(database, asset)
    } catch (error) {
      if (hasNoRow(error)) await store.remove(asset.storageKey)
      else settleLater(asset.storageKey)
      throw error
    }
  }
}

async function describe ({ stored, filename, claimedType }: ReceivedFile<StagedFile>, allowed: readonly string[]): Promise<Omit<NewAsset, 'userId'>> {
  const type = await contentTypeOf(await readAt(stored.handle, 0, SNIFF_BYTES), claimedType)
  if (!isAllowed(type, allowed)) throw new InvalidError([`File has a type that is not allowed (${type.type})`])
  const dimensions = await dimensionsOf(stored.handle, type.type)
  return {
    storageKey: newStorageKey(type.type),
    filename: cleanFilename(filename),
    contentType: type.type,
    byteSize: BigInt(stored.byteSize),
    checksum: stored.checksum,
    width: dimensions?.width ?? null,
    height: dimensions?.height ?? null
  }
}
