import fastifyMultipart from '@fastify/multipart'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { NotFoundError } from '../../errors.ts'
import { auditRequest } from '../../http/audit.ts'
import { checkPreconditions, hasConditions, isNotModified } from '../../http/conditional-requests.ts'
import { nextLink, pageOf } from '../../http/pagination.ts'
import { uncheckedInput } from '../../http/validation.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { multipartOptions } from './upload/multipart-reader.ts'
import { assetRecord, recordTag, recordValidators } from './record.ts'
import { deleteAsset, findAsset, listAssets } from './asset-repository.ts'
import { createAssetSchema, deleteAssetSchema, listAssetsSchema, readAssetSchema } from './schemas.ts'
import { countUploads } from './upload/upload-metrics.ts'
import { createUploadHandler, requireMultipart } from './upload/upload.ts'

/** The owner's routes. The enclosing scope must set `request.session`. */
export const assetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, database, files } = app
  await app.register(fastifyMultipart, multipartOptions(config.MAX_UPLOAD_BYTES))
  const upload = countUploads(app.metrics, createUploadHandler(app))
  const urls = () => config.UPLOADS_PUBLIC_URL ?? `${app.baseUrl()}/uploads`

  async function findRecord (userId: number, id: string) {
    const asset = await findAsset(database, userId, id)
    if (asset === undefined) throw new NotFoundError()
    const record = assetRecord(asset, urls())
    return { record, validators: recordValidators(record) }
  }

  app.get('/assets', { schema: listAssetsSchema }, async (request, reply) => {
    const page = pageOf(request.query)
    const assets = await listAssets(database, request.session.userId, page)
    const shown = assets.slice(0, page.limit)
    const last = shown.at(-1)
    if (assets.length > page.limit && last !== undefined) {
      reply.header('link', nextLink(app.publicPath('/assets'), page, last.id))
    }
    return shown.map((asset) => assetRecord(asset, urls()))
  })

  app.post('/assets', {
    schema: createAssetSchema,
    validatorCompiler: uncheckedInput, // the form is parsed as a stream
    onRequest: requireMultipart
  }, async (request, reply) => {
    const record = assetRecord(await upload(request), urls())
    auditRequest(request, 'created', { user: request.userId, asset: record.id })
    reply.code(201).headers({ etag: recordTag(record), location: app.publicPath(`/assets/${record.id}`) })
    return record
  })

  app.get('/assets/:id', { schema: readAssetSchema }, async (request, reply) => {
    const { record, validators } = await findRecord(request.session.userId, request.params.id)
    checkPreconditions(request, validators)
    reply.header('etag', validators.etag)
    if (isNotModified(request.headers, validators)) return sendWithoutBody(reply.code(304))
    return record
  })

  app.delete('/assets/:id', { schema: deleteAssetSchema }, async (request, reply) => {
    const { userId } = request.session
    // An asset never changes, so the conditions can't become false before the DELETE.
    if (hasConditions(request.headers)) {
      checkPreconditions(request, (await findRecord(userId, request.params.id)).validators)
    }
    await files.assertWritable()
    // The row is deleted first. After a crash in between, the cleanup removes the file.
    const key = await deleteAsset(database, userId, request.params.id)
    if (key === undefined) throw new NotFoundError()
    await files.remove(key).catch(() => {}) // logged; the cleanup will remove it
    return sendWithoutBody(reply.code(204))
  })
}
