import { Type } from '@sinclair/typebox'
import { response, BODY_ERRORS, errors, IdParams, MALFORMED_JSON, NO_PARAMETERS, nothing, ReadConditions,
  WriteConditions } from '../../http/schemas.ts'
import { Document, DOCUMENT, tags } from './schemas.ts'

export const getDocumentSchema = {
  operationId: 'getDocument',
  tags,
  summary: "Read the document of one of the caller's Landing Pages",
  description: 'Returns the document byte for byte as it was sent, without the record.',
  params: IdParams,
  headers: ReadConditions,
  response: {
    200: response(Document, 'The document', 'ETag'),
    304: nothing('The document has not changed', 'ETag'),
    ...errors([400, 401, 403, 404, 412, 422, 500, 503], [], NO_PARAMETERS)
  }
}
export const putDocumentSchema = {
  operationId: 'putDocument',
  tags,
  summary: 'Replace the document of a Landing Page',
  description:
    'The body is the document itself. The service stores it byte for byte, including white space around ' +
    'it. Readers see the new document immediately.',
  params: IdParams,
  headers: WriteConditions,
  body: { ...Document, examples: [DOCUMENT] },
  response: {
    204: nothing("The document is stored. `ETag` is the new document's", 'ETag'),
    ...errors([...BODY_ERRORS, 401, 403, 404, 412, 422, 500, 503], [], {
      ...MALFORMED_JSON,
      422: 'Request body must be a JSON object or array'
    })
  }
}

const Operation = Type.Object({
  op: Type.Union(['add', 'remove', 'replace', 'move', 'copy', 'test'].map((op) => Type.Literal(op))),
  path: Type.String({ description: 'A JSON Pointer (RFC 6901)', examples: ['/prices/0'] }),
  from: Type.Optional(Type.String({ description: 'A JSON Pointer; for `move` and `copy`' })),
  value: Type.Optional(Type.Unknown({ description: 'For `add`, `replace` and `test`' }))
}, { title: 'JsonPatchOperation' })

const JsonPatch = Type.Array(Operation, {
  title: 'JsonPatch',
  maxItems: 1000,
  description: 'Operations (RFC 6902), which are applied in order: all or none',
  examples: [[{ op: 'test', path: '/price', value: 1 }, { op: 'replace', path: '/price', value: 2 }]]
})

const MergePatch = Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown())], {
  title: 'MergePatch',
  description: 'Members to change (RFC 7396); `null` removes a member. An array replaces the whole document.',
  examples: [{ price: 2, discount: null }]
})

export const patchDocumentSchema = {
  operationId: 'patchDocument',
  tags,
  summary: 'Change parts of the document of a Landing Page',
  description:
    'Takes a JSON Patch or a JSON Merge Patch of at most 64 KiB and applies it to the text of the ' +
    'document: every byte that it does not name stays as it was. Without `If-Match`, concurrent patches ' +
    'are all applied, one after the other. If they carry the same `If-Match`, only the first succeeds.',
  params: IdParams,
  headers: WriteConditions,
  // The schema checks only the type, because the parser passes an empty object or array in place of the
  // patch. patch/operations.ts checks what is in it.
  body: {
    content: {
      'application/json-patch+json': { schema: JsonPatch },
      'application/merge-patch+json': { schema: MergePatch }
    }
  },
  response: {
    204: nothing("The document is patched. `ETag` is the new document's", 'ETag'),
    ...errors([...BODY_ERRORS, 401, 403, 404, 409, 412, 422, 500, 503], [], {
      ...MALFORMED_JSON,
      415: 'Content-Type must be application/json-patch+json or application/merge-patch+json',
      422: 'Operation 1 (replace "/price"): there is nothing at this path'
    })
  }
}
