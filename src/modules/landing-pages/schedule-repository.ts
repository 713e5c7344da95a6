import { OLDEST } from '../../http/pagination.ts'
import type { Database } from '../../infra/postgres/database.ts'
import type { LandingPageSchedule, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import type { Author } from '../accounts/index.ts'
import type { Draft } from './draft-repository.ts'
import type { LandingPage, Writer } from './landing-page-repository.ts'

/** When a page is published and unpublished; null for never. */
export type Schedule = Pick<LandingPageSchedule, 'publishAt' | 'unpublishAt'>

/** The most pages of an account that have a schedule. */
export const MAX_SCHEDULES = 1000

/** One statement: it checks what was read, the clock of PostgreSQL and the limit, and sets the schedule. */
const SET = statement<{ result: string, now: Date }>(`
  SELECT set_schedule(:pageId::uuid, :userId::integer, :version::bigint, :draftHash::text,
    :publishAt::timestamptz, :unpublishAt::timestamptz, :authorType, :authorName, ${MAX_SCHEDULES}) AS result,
    now() AS now`)

/** A time of a schedule that has come. */
export interface DueTime {
  readonly pageId: string
  readonly userId: number
  /** Whether the page is published then. If not, it is unpublished. */
  readonly publishes: boolean
  readonly at: Date
  /** How long ago that was by PostgreSQL's clock, in milliseconds. */
  readonly lateMs: number
  readonly authorType: Author['type']
  readonly authorName: string
}

/** Times that one statement finds. */
const MAX_DUE = 1000

const dueSql = (column: string): string =>
  `(SELECT page_id, user_id, ${column} AS at, author_type, author_name,
      ${column === 'publish_at'} AS publishes
    FROM landing_page_schedules schedule
    WHERE ${column} <= now()
      AND (${column}, page_id) > (:afterAt::timestamptz, :afterId::uuid)
      AND NOT EXISTS (SELECT FROM account_deletions deletion WHERE deletion.user_id = schedule.user_id)
    ORDER BY ${column}, page_id LIMIT ${MAX_DUE})`

/** Prisma can't compare with PostgreSQL's clock. */
const FIND_DUE = statement<DueTime>(`
  SELECT page_id AS "pageId", user_id AS "userId", publishes, at,
    (extract(epoch FROM clock_timestamp() - at) * 1000)::float8 AS "lateMs", author_type AS "authorType",
    author_name AS "authorName"
  FROM (${dueSql('publish_at')} UNION ALL ${dueSql('unpublish_at')}) due
  ORDER BY at, page_id LIMIT ${MAX_DUE}`)

const NONE: Schedule = { publishAt: null, unpublishAt: null }

/** Returns the schedule of a page: both times are null without one. */
export const findSchedule = async (database: PrismaClient, pageId: string): Promise<Schedule> =>
  await database.landingPageSchedule.findUnique({
    where: { pageId },
    select: { publishAt: true, unpublishAt: true }
  }) ?? NONE

/**
 * Why a schedule was not set: the page or the draft has changed, the earliest time is past, the latest one is
 * more than five years away, or the account has MAX_SCHEDULES.
 */
export type ScheduleProblem = 'changed' | 'past' | 'distant' | 'too many'

/**
 * Sets the schedule of a page that was read, with its draft.
 *
 * @returns undefined if it is set, else the problem, and the time of PostgreSQL's clock
 */
export async function setSchedule (
  database: StatementRunner,
  { userId, author }: Writer,
  page: LandingPage,
  draft: Draft | null,
  { publishAt, unpublishAt }: Schedule
): Promise<{ problem: ScheduleProblem, now: Date } | undefined> {
  const [row] = await database.run(SET, {
    pageId: page.id,
    userId,
    version: page.version,
    draftHash: draft?.contentHash ?? null,
    publishAt,
    unpublishAt,
    authorType: author.type,
    authorName: author.name
  })
  const { result, now } = row as { result: ScheduleProblem | 'set', now: Date }
  return result === 'set' ? undefined : { problem: result, now }
}

/** Removes the schedule of a page, if it has one. */
export const removeSchedule = async (database: PrismaClient, pageId: string): Promise<void> => {
  await database.landingPageSchedule.deleteMany({ where: { pageId } })
}

/** Finds the times that have come, in their order. */
export async function* readDueTimes (database: Database): AsyncGenerator<DueTime> {
  let after: Pick<DueTime, 'at' | 'pageId'> | undefined = { at: new Date(0), pageId: OLDEST }
  while (after !== undefined) {
    const found: DueTime[] = await database.run(FIND_DUE, { afterAt: after.at, afterId: after.pageId })
    yield* found
    after = found[MAX_DUE - 1]
  }
}

/** Clears a time that has come, or does nothing if the schedule has another one now. */
export async function clearTime (
  database: PrismaClient,
  pageId: string,
  publishes: boolean,
  at?: Date
): Promise<void> {
  const { landingPageSchedule: schedule } = database
  if (publishes) await schedule.updateMany({ where: { pageId, publishAt: at }, data: { publishAt: null } })
  else await schedule.updateMany({ where: { pageId, unpublishAt: at }, data: { unpublishAt: null } })
}
