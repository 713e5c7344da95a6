// What statements that write a page need of its schedule. They have locked the page. Their functions see what
// others have committed meanwhile (prisma/migrations/20261125231255_schedules).

/**
 * A condition: the write isn't of a schedule, or the time of the schedule has come.
 *
 * @param publishes an expression: whether the schedule publishes the page
 */
export const isDueSql = (pageId: string, publishes: string): string =>
  `(NOT :isSchedule::boolean OR is_schedule_due(${pageId}, ${publishes}))`

/** The new value of `scheduled_version` in a new version. */
export const SCHEDULED_VERSION =
  'CASE WHEN :isSchedule::boolean THEN pages.version + 1 ELSE pages.scheduled_version END'
