import { Type } from '@sinclair/typebox'

/** RFC 3339, section 5.6, or a date alone. In a query string, a `+` that isn't encoded becomes a space. */
const TIME =
  /^(\d{4}-\d\d-\d\d)(?:t([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(?:z|[+ -]([01]\d|2[0-3]):[0-5]\d))?$/i
const END_OF_9999 = Date.UTC(10_000, 0)

/**
 * Parses a time with an offset (RFC 3339), or a date, which stands for its start in UTC.
 *
 * @returns milliseconds since 1970; undefined when it is invalid, or not in the years 1970 to 9999
 */
export function parseTime (text: string): number | undefined {
  const date = TIME.exec(text)?.[1]
  if (date === undefined || !isDate(date)) return undefined
  const time = Date.parse(text.replace(' ', '+').toUpperCase())
  return time >= 0 && time < END_OF_9999 ? time : undefined
}

/** Date.parse accepts 30 February, as 2 March. */
function isDate (date: string): boolean {
  const time = Date.parse(date)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(date)
}

const TIME_RULE = 'must be a date such as 2026-11-23, or a time such as 2026-11-23T10:00:00Z'

/** The schema of a parameter of the query string that parseTime() parses. */
export const timeParameter = (description: string, example: string) =>
  Type.Optional(Type.String({
    description: `${description}. A date stands for its start in UTC.`,
    examples: [example],
    check: (text: string) => parseTime(text) === undefined ? [TIME_RULE] : []
  }))
