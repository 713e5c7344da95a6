import fastifyMultipart from '@fastify/multipart'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Asset } from '../../infra/postgres/generated/prisma/client.ts'
import { ConflictError, NotFoundError } from '../../errors.ts'
import { auditRequest } from '../../http/access-log.ts'
import { checkCreation, checkPreconditions, hasConditions,
  isNotModified } from '../../http/conditional-requests.ts'
import { addNextLink, createListQueue, sortedPageOf } from '../../http/pagination.ts'
import { uncheckedInput } from '../../http/validation.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { multipartOptions } from './upload/multipart-reader.ts'
import { assetRecord, describeReferences, NO_REFERENCES, recordTag, recordValidators,
  withReferences } from './record.ts'
import { findReferencesNow, type AssetReferences } from '../landing-pages/index.ts'
import { deleteAsset, findAsset, findAssetsAt, listAssets, lockAsset } from './asset-repository.ts'
import { createAssetSchema, deleteAssetSchema, listAssetsSchema, readAssetSchema } from './schemas.ts'
import { removeFile } from './cleanup.ts'
import { countUploads, createUploadHandler, requireMultipart } from './upload/upload.ts'

/** The owner's routes. The enclosing scope must set `request.caller`. */
export const assetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, database, files } = app
  const lists = createListQueue()
  await app.register(fastifyMultipart, multipartOptions(config.MAX_UPLOAD_BYTES))
  const upload = countUploads(app.metrics, createUploadHandler(app))
  const recordOf = (asset: Asset) => {
    const variantUrls = `${app.baseUrl()}/uploads`
    return assetRecord(asset, {
      ...app.variants.settings,
      urls: config.UPLOADS_PUBLIC_URL ?? variantUrls,
      variantUrls
    })
  }

  function recordWith (asset: Asset, references: AssetReferences) {
    const record = withReferences(recordOf(asset), references)
    return { record, validators: recordValidators(record) }
  }

  /** Deletes the row of an asset if the conditions of the request are true at that moment. */
  async function deleteIfConditionsHold (
    request: FastifyRequest,
    id: string,
    ifUnused: boolean
  ): Promise<string> {
    const { userId } = request.caller
    if (await findAsset(database, userId, id) === undefined) throw new NotFoundError()
    await app.findReferences(userId, id) // may search documents, which must not take place under a lock
    return await database.$transaction(async (transaction) => {
      const asset = await lockAsset(transaction, userId, id)
      if (asset === undefined) throw new NotFoundError()
      const references = await findReferencesNow(transaction, userId, id)
      checkPreconditions(request, recordWith(asset, references).validators)
      if (ifUnused && references.count > 0) throw new ConflictError([describeReferences(references)])
      await deleteAsset(transaction, userId, id)
      return asset.storageKey
    })
  }

  async function deleteAlways (userId: number, id: string): Promise<string> {
    const key = await deleteAsset(database, userId, id)
    if (key === undefined) throw new NotFoundError()
    return key
  }

  app.get('/assets', { schema: listAssetsSchema }, async (request, reply) => {
    const { caller: { userId }, query } = request
    const page = sortedPageOf(query)
    const found = await findAssetsAt(database, userId, page.q ?? '')
    if (found.length > 0) return found.map(recordOf)
    const { rows, next } = await lists.run(
      userId,
      async () => await listAssets(database, userId, page, query.type)
    )
    addNextLink(reply, '/assets', page, next)
    return rows.map(recordOf)
  })

  app.post('/assets', {
    schema: createAssetSchema,
    validatorCompiler: uncheckedInput, // the form is parsed as a stream
    onRequest: requireMultipart
  }, async (request, reply) => {
    checkCreation(request)
    const record = recordOf(await upload(request))
    auditRequest(request, 'created', { asset: record.id })
    reply.code(201).headers({
      etag: recordTag(withReferences(record, NO_REFERENCES)), // the tag of the next GET
      location: app.publicPath(`/assets/${record.id}`)
    })
    return record
  })

  app.get('/assets/:id', { schema: readAssetSchema }, async (request, reply) => {
    const { caller: { userId }, params: { id } } = request
    const asset = await findAsset(database, userId, id)
    if (asset === undefined) throw new NotFoundError()
    const { record, validators } = recordWith(asset, await app.findReferences(userId, id))
    checkPreconditions(request, validators)
    reply.header('etag', validators.etag)
    // Without the date, as the record may have changed later.
    if (isNotModified(request.headers, { etag: validators.etag })) return sendWithoutBody(reply.code(304))
    return record
  })

  app.delete('/assets/:id', { schema: deleteAssetSchema }, async (request, reply) => {
    const { id } = request.params
    const ifUnused = request.query.if_unused === 'true'
    await files.assertWritable()
    // The row is deleted first. After a crash in between, the cleanup removes the file.
    const key = ifUnused || hasConditions(request.headers)
      ? await deleteIfConditionsHold(request, id, ifUnused)
      : await deleteAlways(request.caller.userId, id)
    await removeFile(database, files, key).catch(() => {}) // logged; the cleanup will remove it
    return sendWithoutBody(reply.code(204))
  })
}
