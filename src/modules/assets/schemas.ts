import { Type } from '@sinclair/typebox'
import { CACHE_TAGS, optionalHeader, conditionalRead, errors, IdParams, NOTHING_MATCHES, nothing, response,
  type ResponseHeader, TagConditions, WriteConditions } from '../../http/schemas.ts'
import { sortedQuery } from '../../http/pagination.ts'
import { MAX_REFERENCES } from '../landing-pages/index.ts'
import { ASSET_SORTS, ASSET_TYPES } from './asset-repository.ts'
import { FILE_FIELD } from './upload/multipart-reader.ts'

const NAME = '7Hq2LJtB7sZ4uNfE8aGd1o.png'
const pixels = Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
  description: 'In pixels; null if the file is not an image',
  examples: [1]
})

const VARIANT = { width: 640, height: 480, content_type: 'image/webp' }

const AssetVariant = Type.Object({
  url: Type.String({ format: 'uri', description: 'Public URL of the variant' }),
  width: Type.Integer({ minimum: 1, description: 'In pixels' }),
  height: Type.Integer({ minimum: 1, description: 'In pixels' }),
  content_type: Type.String()
}, {
  title: 'AssetVariant',
  examples: [{ url: `https://landfall.example.com/uploads/${NAME.slice(0, 22)}/w640.webp`, ...VARIANT }]
})

export const AssetRecord = Type.Object({
  id: Type.String({ format: 'uuid' }),
  filename: Type.String({
    description: 'The base name of the file that the client sent, without invisible characters',
    examples: ['dot.png']
  }),
  content_type: Type.String({
    description: 'Detected from the bytes; the type sent by the client is used only if nothing is detected',
    examples: ['image/png']
  }),
  byte_size: Type.Integer({ minimum: 1, examples: [70] }),
  checksum: Type.String({
    pattern: '^[0-9a-f]{64}$',
    description: 'SHA-256 of the bytes, hex',
    examples: ['6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0']
  }),
  width: pixels,
  height: pixels,
  url: Type.String({
    format: 'uri',
    description: 'Public URL of the file',
    examples: [`https://landfall.example.com/uploads/${NAME}`]
  }),
  variants: Type.Array(AssetVariant, {
    description:
      'Smaller copies of a picture, the narrowest first. Their orientation is applied, and they have no ' +
      'metadata. Each is made by the first request for it. The list is empty for other files, and for ' +
      'pictures that are too narrow, too large or can not be decoded.'
  }),
  created_at: Type.String({ format: 'date-time' })
}, { title: 'Asset' })

const AssetReference = Type.Object({
  id: Type.String({ format: 'uuid', description: 'The `id` of the page' }),
  public_id: Type.String({ description: 'The `public_id` of the page', examples: ['4nJ8sQzR2bXw7kLmT0yHcV'] })
}, { title: 'AssetReference' })

export const AssetWithReferences = Type.Object({
  ...AssetRecord.properties,
  used_by: Type.Array(AssetReference, {
    maxItems: MAX_REFERENCES,
    description:
      'The pages whose document or draft contains the name of the file, or of a variant: the newest 100, ' +
      'newest first'
  })
}, { title: 'AssetWithReferences' })

const DeleteQuery = Type.Object({
  if_unused: Type
    .Optional(Type.String({
      enum: ['true', 'false'],
      default: 'false',
      description: '`true`: delete the file only if no page uses it'
    }))
})

const ListQuery = Type.Object({
  ...sortedQuery('the file name, or the asset whose URL or variant it is', ASSET_SORTS).properties,
  type: Type.Optional(Type.Unsafe<typeof ASSET_TYPES[number]>({
    type: 'string',
    enum: ASSET_TYPES,
    description: 'Include only files of this type. `document`: PDF, text and office files.'
  }))
})

export const listAssetsSchema = {
  operationId: 'listAssets',
  summary: "List the caller's assets",
  description: 'If there are more records, the `Link` header contains the URL of the next ones.',
  querystring: ListQuery,
  response: { 200: response(Type.Array(AssetRecord), 'The assets', 'Link?') }
}

export const createAssetSchema = {
  operationId: 'createAsset',
  summary: 'Upload a file',
  description:
    `One file in the form field \`${FILE_FIELD}\`, by default of at most 25 MiB. Other fields are ` +
    'ignored. After a 201, the file is stored durably; after an error, nothing is stored.',
  consumes: ['multipart/form-data'],
  headers: TagConditions,
  body: Type
    .Optional(Type.Object({
      [FILE_FIELD]: Type.String({
        format: 'binary',
        contentMediaType: 'application/octet-stream',
        description: 'The file, with its filename'
      })
    })),
  response: {
    201: response(AssetRecord, 'The asset', 'ETag', 'Location'),
    ...errors([400, 412, 413, 415, 422, 507], [], {
      ...NOTHING_MATCHES,
      413: 'File is too large (maximum is 26214400 bytes)',
      415: 'Content-Type must be multipart/form-data',
      422: `File can't be blank (it belongs in the form field ${FILE_FIELD})`
    })
  }
}

export const readAssetSchema = {
  operationId: 'getAsset',
  summary: "Read one of the caller's assets",
  description: 'The record of the file, and the pages that use it. The file itself is at its `url`. ' +
    '`If-Modified-Since` is ignored, and `If-Unmodified-Since` compares with the time of the upload, ' +
    'because the use of a file has no date.',
  params: IdParams,
  ...conditionalRead(AssetWithReferences, 'The asset')
}

export const deleteAssetSchema = {
  operationId: 'deleteAsset',
  summary: "Delete one of the caller's assets and its file",
  description:
    'The file is gone immediately. Shared caches may keep their copies for a year. With `if_unused=true` ' +
    'the file is kept, and the response is a 409, if a page uses it; a page that is written at the same ' +
    'time either keeps the file, or its document names a file that is gone.',
  params: IdParams,
  querystring: DeleteQuery,
  headers: WriteConditions,
  response: {
    204: nothing('The asset is deleted, and its URL returns 404'),
    ...errors([409, 422], [], {
      409: 'File is used by 2 pages: 4nJ8sQzR2bXw7kLmT0yHcV, 2fWq0LcXb3mVt9ZsYk7RdA',
      422: 'If unused must be true or false'
    })
  }
}

const FileParams = Type.Object({
  '*': Type.String({
    description: 'What follows `/uploads/` in the `url` of an asset or of one of its variants',
    examples: [NAME]
  })
})
const CORS: readonly ResponseHeader[] = ['Access-Control-Allow-Origin', 'Access-Control-Expose-Headers']
const FILE: readonly ResponseHeader[] = [...CORS, ...CACHE_TAGS, 'ETag', 'Last-Modified', 'Accept-Ranges']

const bytes = (meaning: string, ...headers: ResponseHeader[]) => ({
  ...nothing(meaning, ...FILE, 'Content-Disposition', ...headers),
  type: undefined,
  content: { '*/*': { schema: Type.String({ format: 'binary' }) } }
})

export const readFileSchema = {
  operationId: 'readFile',
  tags: ['Public'],
  summary: 'Read the file of an asset',
  description:
    'The content of a URL never changes, so caches may keep it forever. Types that browsers could ' +
    'execute, such as HTML and SVG, are served as downloads. The first request for a variant waits until ' +
    'it is made. After 10 seconds, or if too many wait, the response is a 503.',
  params: FileParams,
  headers: Type.Object({
    range: optionalHeader('Return only a part of the file, such as `bytes=0-99`'),
    'if-range':
      optionalHeader('Apply `Range` only if the file has this ETag or date; otherwise return the whole file'),
    'if-none-match': optionalHeader('Answer 304 if the file has one of these ETags'),
    'if-modified-since': optionalHeader('Answer 304 if the file has not been modified since this date'),
    'if-match': optionalHeader('Answer 412 unless the file has one of these ETags'),
    'if-unmodified-since': optionalHeader('Answer 412 if the file has been modified since this date')
  }),
  response: {
    200: bytes('The file'),
    206: bytes('A part of the file', 'Content-Range'),
    304: nothing('The file has not changed', ...FILE),
    ...errors([400, 404, 412, 416, 500, 503], CORS)
  }
}
export const askForFileSchema = {
  operationId: 'askForFile',
  tags: ['Public'],
  summary: 'Respond to the CORS preflight of a file',
  description: 'Scripts of any origin may read files.',
  params: FileParams,
  response: {
    204: nothing(
      'Reading is allowed',
      ...CORS,
      'Access-Control-Allow-Methods',
      'Access-Control-Allow-Headers',
      'Access-Control-Max-Age',
      'Allow',
      'Vary'
    ),
    ...errors([400, 413, 415], CORS)
  }
}
