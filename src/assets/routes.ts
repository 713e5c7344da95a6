import fastifyMultipart from '@fastify/multipart'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { NotFoundError } from '../errors.ts'
import { nextLink, parsePage } from '../pagination.ts'
import { sendNothing } from '../reply.ts'
import { multipartOptions } from './multipart-reader.ts'
import { assetRecord } from './record.ts'
import { deleteAsset, findAsset, listAssets } from './repository.ts'
import { createAssetSchema, deleteAssetSchema, listAssetsSchema, readAssetSchema } from './schemas.ts'
import { measured } from './upload-metrics.ts'
import { requireMultipart, uploader } from './upload.ts'

/** The management of assets, for a scope that sets `request.session`. */
export const assetRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, database, files } = app
  await app.register(fastifyMultipart, multipartOptions(config.MAX_UPLOAD_BYTES))
  const upload = measured(app.metrics, uploader(app, files))
  const urls = () => config.UPLOADS_PUBLIC_URL ?? `${app.baseUrl()}/uploads`

  app.get('/assets', { schema: listAssetsSchema }, async (request, reply) => {
    const page = parsePage(request.query)
    const assets = await listAssets(database, request.session.userId, page)
    const shown = assets.slice(0, page.limit)
    const last = shown.at(-1)
    if (assets.length > page.limit && last !== undefined) reply.header('link', nextLink(`${app.baseUrl()}/assets`, page, last.id))
    return shown.map((asset) => assetRecord(asset, urls()))
  })

  app.post('/assets', { schema: createAssetSchema, onRequest: requireMultipart }, async (request, reply) => {
    const asset = await upload(request)
    reply.code(201)
    return assetRecord(asset, urls())
  })

  app.get('/assets/:id', { schema: readAssetSchema }, async (request) => {
    const asset = await findAsset(database, request.session.userId, request.params.id)
    if (asset === undefined) throw new NotFoundError()
    return assetRecord(asset, urls())
  })

  app.delete('/assets/:id', { schema: deleteAssetSchema }, async (request, reply) => {
    await files.assertWritable()
    // The row goes first: a crash in between leaves a file without a row, which the sweep finds; never the reverse.
    const key = await deleteAsset(database, request.session.userId, request.params.id)
    if (key === undefined) throw new NotFoundError()
    await files.remove(key)
    return sendNothing(reply.code(204))
  })
}
