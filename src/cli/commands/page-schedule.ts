import { createOwnerClient, explainErrors } from '../owner-client.ts'
import { print } from '../output.ts'

interface ScheduleOptions {
  readonly publishAt?: string
  readonly unpublishAt?: string
  readonly remove?: boolean
  readonly ifMatch?: string
  readonly json?: boolean
}

/** Prints the schedule of a page through the API, after setting or removing it. Returns the exit code. */
export async function schedule (
  id: string,
  { publishAt, unpublishAt, remove = false, ifMatch, json = false }: ScheduleOptions
): Promise<number> {
  const { landingPages } = createOwnerClient()
  const isSet = publishAt !== undefined || unpublishAt !== undefined
  const times = await explainErrors(isSet || remove
    ? landingPages.setSchedule(id, { publishAt, unpublishAt }, { ifMatch })
    : landingPages.getSchedule(id))
  const { publish_at: published, unpublish_at: unpublished } = times
  print(json ? `${JSON.stringify(times)}\n`
    : `publish    ${published ?? 'never'}\nunpublish  ${unpublished ?? 'never'}\n`)
  return 0
}
