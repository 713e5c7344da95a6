import { Type } from '@sinclair/typebox'
import { PageQuery } from '../pagination.ts'
import { ErrorBody, IdParams } from '../schemas.ts'
import { FILE_FIELD } from './multipart-reader.ts'

const nullable = (description: string) => Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], { description })

export const AssetRecord = Type.Object({
  id: Type.String({ format: 'uuid' }),
  filename: Type.String({ description: 'Base name of the file as it was sent, cleaned' }),
  content_type: Type.String({ description: 'Type that the bytes show; what the client said only where they show none' }),
  byte_size: Type.Integer({ minimum: 1 }),
  checksum: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the bytes, in hex' }),
  width: nullable('Pixels; null for what is no image'),
  height: nullable('Pixels; null for what is no image'),
  url: Type.String({ format: 'uri', description: 'Public address of the bytes' }),
  created_at: Type.String({ format: 'date-time' })
}, { title: 'Asset' })

export const listAssetsSchema = {
  summary: 'List the assets of the caller, newest first',
  querystring: PageQuery,
  response: { 200: Type.Array(AssetRecord), 401: ErrorBody, 422: ErrorBody }
}

export const createAssetSchema = {
  summary: 'Upload a file',
  description: `One file in the form field \`${FILE_FIELD}\`. Other fields are ignored.`,
  consumes: ['multipart/form-data'],
  body: Type.Optional(Type.Object({ [FILE_FIELD]: Type.String({ format: 'binary' }) })),
  response: { 201: AssetRecord, 400: ErrorBody, 401: ErrorBody, 413: ErrorBody, 415: ErrorBody, 422: ErrorBody, 507: ErrorBody }
}

export const readAssetSchema = {
  summary: 'Read an asset of the caller',
  params: IdParams,
  response: { 200: AssetRecord, 401: ErrorBody, 404: ErrorBody }
}

export const deleteAssetSchema = {
  summary: 'Delete an asset of the caller and its file',
  params: IdParams,
  response: { 204: Type.Null({ description: 'Gone' }), 401: ErrorBody, 404: ErrorBody }
}
