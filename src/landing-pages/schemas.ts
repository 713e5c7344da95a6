import { Type } from '@sinclair/typebox'
import { PageQuery } from '../pagination.ts'
import { ErrorBody, IdParams } from '../schemas.ts'

const Document = Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown())], {
  description: 'Any JSON object or array, at most 100 levels deep, kept byte for byte as it was sent'
})

const LandingPageRecord = Type.Object({
  id: Type.String({ format: 'uuid' }),
  public_id: Type.String({ pattern: '^[0-9A-Za-z]{22}$' }),
  current_data: Document,
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' })
})

const IfMatch = Type.Object({ 'if-match': Type.Optional(Type.String({ description: 'Write only if the document still has one of these ETags' })) })
const IfNoneMatch = Type.Object({ 'if-none-match': Type.Optional(Type.String({ description: 'Answer 304 if the document still has one of these ETags' })) })
const PublicParams = Type.Object({ public_id: Type.String() })
const errors = { '4xx': ErrorBody, '5xx': ErrorBody }
const security = [{ bearer: [] }]

// The answers of these routes hold a document's own bytes, so the routes write them as text; the schemas describe them.

export const createSchema = {
  summary: 'Create a Landing Page',
  description: 'current_data may also be inside of a landing_page object.',
  security,
  body: Type.Object({ current_data: Document }),
  response: { 201: LandingPageRecord, ...errors }
}
export const listSchema = {
  summary: "The caller's Landing Pages, newest first",
  description: 'An answer may hold fewer than limit records while there is more; the Link header leads on.',
  security,
  querystring: PageQuery,
  response: { 200: Type.Array(LandingPageRecord), ...errors }
}
export const getSchema = {
  summary: "One of the caller's Landing Pages",
  security,
  params: IdParams,
  headers: IfNoneMatch,
  response: { 200: LandingPageRecord, 304: Type.Null(), ...errors }
}
export const updateSchema = {
  summary: 'Replace the document of a Landing Page',
  description: 'Without current_data nothing changes. current_data may also be inside of a landing_page object.',
  security,
  params: IdParams,
  headers: IfMatch,
  body: Type.Object({ current_data: Type.Optional(Document) }),
  response: { 200: LandingPageRecord, ...errors }
}
export const deleteSchema = {
  summary: 'Delete a Landing Page',
  security,
  params: IdParams,
  headers: IfMatch,
  response: { 204: Type.Null(), ...errors }
}
export const publicReadSchema = {
  summary: 'The document of a Landing Page',
  params: PublicParams,
  headers: IfNoneMatch,
  response: { 200: Document, 304: Type.Null(), ...errors }
}
