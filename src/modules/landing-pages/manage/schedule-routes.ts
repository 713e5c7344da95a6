import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { InvalidError } from '../../../errors.ts'
import { checkPreconditions } from '../../../http/conditional-requests.ts'
import { recordOf, sendWithoutBody } from '../../../http/responses.ts'
import { errors, IdParams, nothing, nullableTime, response, WriteConditions } from '../../../http/schemas.ts'
import { parseTime } from '../../../http/time.ts'
import type { Draft } from '../draft-repository.ts'
import { draftValidators, recordValidators } from '../etag.ts'
import type { LandingPage as Page } from '../landing-page-repository.ts'
import { findSchedule, MAX_SCHEDULES, removeSchedule, setSchedule, type Schedule as Times,
  type ScheduleProblem } from '../schedule-repository.ts'
import { findOwnPage, findOwnPageAndDraft, untilWritten } from './write-checks.ts'

export const Schedule = Type.Object({
  publish_at: nullableTime('When the draft, or the unpublished page, will be published; null for never'),
  unpublish_at: nullableTime('When the page will be unpublished; null for never')
}, { title: 'Schedule' })

const EXAMPLE = '2027-01-31T08:00:00+01:00'
/** A date, a time and an offset, which need not exist. */
const TIME = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d{1,9})?(z|[+-]\d\d:\d\d)$/i
function checkTime (text: string): string[] {
  if (!TIME.test(text)) return [`must be a time with an offset, such as ${EXAMPLE}`]
  return parseTime(text) === undefined ? ['names a day, a time or an offset that does not exist'] : []
}
const time = (description: string) =>
  Type.Unsafe<string | null>({
    type: ['string', 'null'],
    check: checkTime,
    description: `${description} (RFC 3339, with an offset); null for never`
  })

const PutBody = Type.Object({
  publish_at: time('When the draft, or the unpublished page, is published'),
  unpublish_at: time('When the page is unpublished')
}, { title: 'PutSchedule', examples: [{ publish_at: EXAMPLE, unpublish_at: null }] })

const NOTHING_TO_PUBLISH = 'There is nothing to publish: the page is published and has no draft'

const getScheduleSchema = {
  operationId: 'getSchedule',
  summary: 'Show when a Landing Page will be published and unpublished',
  description: 'Without a schedule, both times are null.',
  params: IdParams,
  response: { 200: response(Schedule, 'The schedule') }
}
const putScheduleSchema = {
  operationId: 'putSchedule',
  summary: 'Set when a Landing Page will be published and unpublished',
  description:
    'Replaces the schedule. At `publish_at` the draft becomes the document, whatever that is by then; an ' +
    'unpublished page without a draft is published as it is. Until then, the draft cannot be changed. ' +
    "Times have to be later than now, by the database's clock, and within five years, `unpublish_at` later " +
    `than \`publish_at\`. An account can have ${MAX_SCHEDULES} pages with a schedule. If both times are ` +
    'null, the schedule is removed. `If-Match` names the draft, or without one the page.',
  params: IdParams,
  headers: WriteConditions,
  body: PutBody,
  response: {
    200: response(Schedule, 'The schedule'),
    ...errors([422], [], { 422: NOTHING_TO_PUBLISH })
  }
}
const deleteScheduleSchema = {
  operationId: 'deleteSchedule',
  summary: 'Remove the schedule of a Landing Page',
  description: 'The draft can be changed again. A page without a schedule stays as it is.',
  params: IdParams,
  headers: WriteConditions,
  response: { 204: nothing('The page has no schedule') }
}

/** The routes of schedules. */
export const scheduleRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/:id/schedule'

  app.get(url, { schema: getScheduleSchema }, async (request) => {
    const { id } = await findOwnPage(request)
    return recordOf(await findSchedule(database, id))
  })

  app.put(url, { schema: putScheduleSchema }, async (request) => {
    const times = {
      publishAt: dateOf(request.body.publish_at),
      unpublishAt: dateOf(request.body.unpublish_at)
    }
    if (times.publishAt === null && times.unpublishAt === null) await remove(request)
    else await untilWritten(request, async () => await set(request, times) || null)
    return recordOf(times)
  })

  app.delete(url, { schema: deleteScheduleSchema }, async (request, reply) => {
    await remove(request)
    return sendWithoutBody(reply.code(204))
  })
}

/** The schema has checked the format. */
const dateOf = (text: string | null): Date | null =>
  text === null ? null : new Date(parseTime(text) as number)

/** Reads the page that a request names, and its draft, and checks the preconditions. */
async function readPage (request: FastifyRequest): Promise<{ page: Page, draft: Draft | null }> {
  const read = await findOwnPageAndDraft(request)
  const { page, draft } = read
  checkPreconditions(request, draft === null ? recordValidators(page) : draftValidators(draft))
  return read
}

async function remove (request: FastifyRequest): Promise<void> {
  const { page } = await readPage(request)
  await removeSchedule(request.server.database, page.id)
}

/** Returns false if somebody else has written meanwhile. @throws {InvalidError} 422 */
async function set (request: FastifyRequest, times: Times): Promise<boolean> {
  const { page, draft } = await readPage(request)
  const { publishAt, unpublishAt } = times
  const problems = []
  if (publishAt !== null && page.published && draft === null) problems.push(NOTHING_TO_PUBLISH)
  if (publishAt !== null && unpublishAt !== null && unpublishAt <= publishAt) {
    problems.push('Unpublish at must be later than publish at')
  }
  if (problems.length > 0) throw new InvalidError(problems)
  const refused = await setSchedule(request.server.database, request.caller, page, draft, times)
  if (refused === undefined) return true
  if (refused.problem === 'changed') return false
  throw new InvalidError([describe(refused.problem, refused.now, times)])
}

function describe (problem: Exclude<ScheduleProblem, 'changed'>, now: Date, times: Times): string {
  const { publishAt, unpublishAt } = times
  if (problem === 'too many') {
    return `An account can have ${MAX_SCHEDULES} pages with a schedule: remove one that is not needed any more`
  }
  if (problem === 'distant') {
    return `${unpublishAt === null ? 'Publish at' : 'Unpublish at'} must be within five years`
  }
  return `${publishAt === null ? 'Unpublish at' : 'Publish at'} must be later than now (${now.toISOString()})`
}
