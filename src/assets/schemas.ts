import { Type } from '@sinclair/typebox'
import { PageQuery } from '../pagination.ts'
import { answer, BAD_PAGE, bearer, errors, IdParams, nothing, type AnswerHeader } from '../schemas.ts'
import { FILE_FIELD } from './multipart-reader.ts'

const NAME = '7Hq2LJtB7sZ4uNfE8aGd1o.png'
const pixels = Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], { description: 'In pixels; null for what is no image', examples: [1] })

export const AssetRecord = Type.Object({
  id: Type.String({ format: 'uuid' }),
  filename: Type.String({ description: 'Base name of the file as it was sent, cleaned', examples: ['dot.png'] }),
  content_type: Type.String({ description: 'Type that the bytes show; what the client said only where they show none', examples: ['image/png'] }),
  byte_size: Type.Integer({ minimum: 1, examples: [70] }),
  checksum: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the bytes, in hex', examples: ['6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0'] }),
  width: pixels,
  height: pixels,
  url: Type.String({ format: 'uri', description: 'Public address of the bytes', examples: [`https://landfall.example.com/uploads/${NAME}`] }),
  created_at: Type.String({ format: 'date-time' })
}, { title: 'Asset' })

const tags = ['Assets']

export const listAssetsSchema = {
  operationId: 'listAssets',
  tags,
  summary: "List the caller's assets, newest first",
  security: bearer,
  querystring: PageQuery,
  response: { 200: answer(Type.Array(AssetRecord), 'The assets', 'Link?'), ...errors([400, 401, 422, 500, 503], [], BAD_PAGE) }
}

export const createAssetSchema = {
  operationId: 'createAsset',
  tags,
  summary: 'Upload a file',
  description: `One file in the form field \`${FILE_FIELD}\`, of at most 25 MiB unless the service is set otherwise. Other fields are ignored. The file is stored when the answer comes, and whole; whatever fails, nothing of it is kept.`,
  security: bearer,
  consumes: ['multipart/form-data'],
  body: Type.Optional(Type.Object({ [FILE_FIELD]: Type.String({ format: 'binary', contentMediaType: 'application/octet-stream', description: 'The file, with its name' }) })),
  response: {
    201: answer(AssetRecord, 'The asset'),
    ...errors([400, 401, 408, 413, 415, 422, 500, 503, 507], [], {
      413: 'File is too large (maximum is 26214400 bytes)',
      415: 'Content-Type must be multipart/form-data',
      422: `File can't be blank (it belongs in the form field ${FILE_FIELD})`
    })
  }
}

export const readAssetSchema = {
  operationId: 'getAsset',
  tags,
  summary: "Read one of the caller's assets",
  security: bearer,
  params: IdParams,
  response: { 200: answer(AssetRecord, 'The asset'), ...errors([400, 401, 404, 500, 503]) }
}

export const deleteAssetSchema = {
  operationId: 'deleteAsset',
  tags,
  summary: "Delete one of the caller's assets and its file",
  security: bearer,
  params: IdParams,
  response: { 204: nothing('Gone, and its address is a 404 from now on'), ...errors([400, 401, 404, 408, 413, 415, 500, 503]) }
}

const condition = (description: string) => Type.Optional(Type.String({ description }))
const FileParams = Type.Object({ name: Type.String({ description: 'The last part of the `url` of an asset', examples: [NAME] }) })
const CORS: readonly AnswerHeader[] = ['Access-Control-Allow-Origin', 'Access-Control-Expose-Headers']
const FILE: readonly AnswerHeader[] = [...CORS, 'ETag', 'Last-Modified', 'Accept-Ranges']

/** The bytes of a file, of whatever type it is. */
const bytes = (meaning: string, ...headers: AnswerHeader[]) => ({
  ...nothing(meaning, ...FILE, 'Content-Disposition', ...headers),
  type: undefined,
  content: { '*/*': { schema: Type.String({ format: 'binary' }) } }
})

export const readFileSchema = {
  operationId: 'readFile',
  tags: ['Public'],
  summary: 'Read the file of an asset',
  description: 'The bytes under an address never change, so that caches may keep them for ever. What browsers could run (HTML and SVG first of all) is a download.',
  params: FileParams,
  headers: Type.Object({
    range: condition('Only a part of the file, such as `bytes=0-99`'),
    'if-range': condition('The part only if the file still has this ETag or date, else all of it'),
    'if-none-match': condition('Answer 304 if the file has one of these ETags'),
    'if-modified-since': condition('Answer 304 if the file is not newer'),
    'if-match': condition('Answer 412 unless the file has one of these ETags'),
    'if-unmodified-since': condition('Answer 412 if the file is newer')
  }),
  response: {
    200: bytes('The file'),
    206: bytes('A part of the file', 'Content-Range'),
    304: nothing('The file is the known one', ...FILE),
    ...errors([400, 404, 412, 416, 500, 503], CORS)
  }
}
export const askForFileSchema = {
  operationId: 'askForFile',
  tags: ['Public'],
  summary: 'The CORS preflight of browsers: pages of every origin may read',
  params: FileParams,
  response: {
    204: nothing('They may', ...CORS, 'Access-Control-Allow-Methods', 'Access-Control-Allow-Headers', 'Access-Control-Max-Age'),
    ...errors([400, 413, 415], CORS)
  }
}
