import { answer, bearer, BODY_ERRORS, errors, IdParams, MALFORMED_JSON, NO_PARAMETERS, nothing,
  ReadConditions, WriteConditions } from '../../http/schemas.ts'
import { Document, DOCUMENT, tags } from './schemas.ts'

export const getDocumentSchema = {
  operationId: 'getDocument',
  tags,
  summary: "Read the document of one of the caller's Landing Pages",
  description: 'Returns the document byte for byte as it was sent, without the record.',
  security: bearer,
  params: IdParams,
  headers: ReadConditions,
  response: {
    200: answer(Document, 'The document', 'ETag'),
    304: nothing('The document has not changed', 'ETag'),
    ...errors([400, 401, 404, 412, 422, 500, 503], [], NO_PARAMETERS)
  }
}
export const putDocumentSchema = {
  operationId: 'putDocument',
  tags,
  summary: 'Replace the document of a Landing Page',
  description:
    'The body is the document itself. The service stores it byte for byte, including white space around it. Readers see the new document immediately.',
  security: bearer,
  params: IdParams,
  headers: WriteConditions,
  body: { ...Document, examples: [DOCUMENT] },
  response: {
    204: nothing('The document is stored; the ETag is that of the document', 'ETag'),
    ...errors([...BODY_ERRORS, 401, 404, 412, 422, 500, 503], [], {
      ...MALFORMED_JSON,
      422: 'Request body must be a JSON object or array'
    })
  }
}
