import { Type } from '@sinclair/typebox'
import { PageQuery } from '../../http/pagination.ts'
import { response, BAD_PAGE, errors } from '../../http/schemas.ts'
import { MAX_LABEL_LENGTH } from './label.ts'
import { LandingPage, tags } from './schemas.ts'
import { START_LENGTH } from './list-repository.ts'

/** Hours whose reads are listed. */
export const HOURS = 24

const { id, public_id: publicId, version, created_at: createdAt, updated_at: updatedAt } = LandingPage
  .properties

const LandingPageSummary = Type.Object({
  id,
  public_id: publicId,
  label: Type.Union([Type.String({ minLength: 1, maxLength: MAX_LABEL_LENGTH }), Type.Null()], {
    description: `The string in the document's own \`title\`, else \`name\`, else \`headline\`, cut to ` +
      `${MAX_LABEL_LENGTH} characters. Null if there is none, or if it is blank, or if it lies behind ` +
      `the first ${START_LENGTH} characters of the document.`,
    examples: ['Hello']
  }),
  byte_size: Type.Integer({ minimum: 2, description: 'Size of the document' }),
  version,
  created_at: createdAt,
  updated_at: updatedAt,
  reads: Type.Array(Type.Integer({ minimum: 0 }), {
    minItems: HOURS,
    maxItems: HOURS,
    description:
      `How often the page was read (200 and 304 together) in each of the last ${HOURS} hours (UTC), ` +
      'oldest first. The last one is the current hour.'
  })
}, { title: 'LandingPageSummary' })

export const listSummariesSchema = {
  operationId: 'listLandingPageSummaries',
  tags,
  summary: "List the caller's Landing Pages without their documents, newest first",
  description:
    'For an overview of many pages: what each is called, how large it is and how often it is read.',
  querystring: PageQuery,
  response: {
    200: response(Type.Array(LandingPageSummary), 'The pages', 'Link?'),
    ...errors([400, 401, 403, 422, 500, 503], [], BAD_PAGE)
  }
}
