import { InvalidArgumentError } from 'commander'
import type { LandfallClient, Receipt } from '#client'
import { confirm, readInput, toDocument } from '../input.ts'
import { listParts } from '../owner-client.ts'
import { formatBytes, formatTime, print, printList, printProgress } from '../output.ts'

// The commands for drafts, previews, publication, schedules and the trash, through the API.

interface PublishOptions {
  readonly ifMatch?: string
  readonly baseVersion?: number
  readonly wait?: number
}

export async function publish (
  { landingPages }: LandfallClient,
  id: string,
  options: PublishOptions
): Promise<number> {
  const before = await landingPages.publication(id).catch(() => undefined) // publish() says what is wrong
  const { etag, receipt } = await landingPages.publish(id, options)
  const outcome = before?.published === true && before.draft === null
    ? 'Nothing to publish: the page is published and has no draft'
    : 'Published'
  printProgress(`${outcome}. ETag: ${etag}`)
  return reportReceipt(options, receipt)
}

export async function unpublish (
  { landingPages }: LandfallClient,
  id: string,
  options: PublishOptions
): Promise<number> {
  const { etag, receipt } = await landingPages.unpublish(id, options)
  printProgress(`Unpublished. ETag: ${etag}`)
  return reportReceipt(options, receipt, 'No reader gets it any more')
}

/** Returns the exit code: 1 if the command has waited and doesn't know whether readers get the change. */
function reportReceipt (
  { wait }: PublishOptions,
  receipt: Receipt | undefined,
  settled = 'Readers get it everywhere'
): number {
  if (wait === undefined) return 0
  const isSettled = receipt?.settled === true
  printProgress(isSettled ? settled : `After ${wait} s it is not known whether the change is everywhere`)
  return isSettled ? 0 : 1
}

interface DeleteOptions {
  readonly ifMatch?: string
  readonly yes?: boolean
}

export async function remove (
  { landingPages }: LandfallClient,
  id: string,
  { ifMatch, yes = false }: DeleteOptions
): Promise<void> {
  if (process.stdin.isTTY && !yes && !await confirm(`Delete page ${id}? [y/N] `)) {
    throw new Error('Nothing was changed')
  }
  await landingPages.delete(id, { ifMatch })
  print(`Deleted ${id}\n`)
}

export async function listTrash (
  { landingPages }: LandfallClient,
  { json = false }: { json?: boolean }
): Promise<void> {
  await printList(listParts(async (options) => await landingPages.deletedPagesPage(options)), {
    json,
    empty: 'The trash is empty',
    headings: ['ID', 'KEY', 'SIZE', 'DELETED', 'REMOVED FOR GOOD', 'LABEL'],
    toRow: (page) => [
      page.id,
      page.key ?? '',
      formatBytes(page.byte_size),
      formatTime(page.deleted_at),
      formatTime(page.purged_at),
      page.label ?? ''
    ]
  })
}

export async function undelete ({ landingPages }: LandfallClient, id: string): Promise<void> {
  const { published, etag } = await landingPages.undelete(id)
  printProgress(`Restored, ${published ? 'published' : 'unpublished'} and without a schedule. ETag: ${etag}`)
}

export async function purge ({ landingPages }: LandfallClient, id: string): Promise<void> {
  await landingPages.purge(id)
  print(`Removed ${id}\n`)
}

interface DraftOptions {
  readonly discard?: boolean
  readonly ifMatch?: string
}

/** Prints the draft of a page, writes it from a file, or discards it. */
export async function draft (
  { landingPages }: LandfallClient,
  id: string,
  file: string | undefined,
  { discard = false, ifMatch }: DraftOptions
): Promise<void> {
  if (discard) {
    if (file !== undefined) throw new InvalidArgumentError('Either name a file, or use --discard')
    await landingPages.discardDraft(id, { ifMatch })
    printProgress('Discarded the draft')
  } else if (file !== undefined) {
    const document = toDocument(await readInput(file))
    const { etag } = await landingPages.putDraft(id, document, { ifMatch })
    printProgress(`ETag: ${etag}`)
  } else {
    const { text, etag } = await landingPages.getDraft(id, { ifMatch })
    print(text)
    if (!process.stdout.isTTY) printProgress(`ETag: ${etag}`)
  }
}

interface PreviewOptions {
  readonly name?: string
  readonly expiresIn?: number
  readonly list?: boolean
  readonly revoke?: string
  readonly json?: boolean
}

/** Makes a preview link of a page and prints its token, or lists or revokes the links. */
export async function preview (
  { landingPages }: LandfallClient,
  id: string,
  { list = false, revoke, json = false, ...link }: PreviewOptions
): Promise<void> {
  if (list) {
    await printList(listParts(async (options) => await landingPages.previewLinksPage(id, options)), {
      json,
      empty: 'There are no preview links of this page',
      headings: ['ID', 'EXPIRES', 'LAST USED', 'NAME'],
      toRow: ({ id, name, expires_at: expires, last_used_at: used }) => [
        id,
        formatTime(expires),
        used === null ? 'never' : formatTime(used),
        name ?? ''
      ]
    })
  } else if (revoke !== undefined) {
    await landingPages.deletePreviewLink(id, revoke)
    printProgress('Revoked the preview link')
  } else {
    const made = await landingPages.createPreviewLink(id, link)
    print(json ? `${JSON.stringify(made)}\n` : `${made.token}\n`)
    printProgress(`Expires ${formatTime(made.expires_at)}; to revoke it: --revoke ${made.id}`)
  }
}

const NEVER = 'never'

interface ScheduleOptions {
  /** A time or `never`. A time that isn't given stays as it is. */
  readonly publishAt?: string
  readonly unpublishAt?: string
  readonly remove?: boolean
  readonly ifMatch?: string
  readonly json?: boolean
}

/** Prints the schedule of a page, after setting one or both of its times, or removing it. */
export async function schedule (
  { landingPages }: LandfallClient,
  id: string,
  { publishAt, unpublishAt, remove = false, ifMatch, json = false }: ScheduleOptions
): Promise<void> {
  const current = remove ? { publish_at: null, unpublish_at: null } : await landingPages.getSchedule(id)
  const isChange = remove || publishAt !== undefined || unpublishAt !== undefined
  const times = isChange
    ? await landingPages.setSchedule(id, {
      publishAt: newTime(publishAt, current.publish_at),
      unpublishAt: newTime(unpublishAt, current.unpublish_at)
    }, { ifMatch })
    : current
  const { publish_at: published, unpublish_at: unpublished } = times
  print(json ? `${JSON.stringify(times)}\n`
    : `publish    ${published ?? NEVER}\nunpublish  ${unpublished ?? NEVER}\n`)
}

const newTime = (given: string | undefined, current: string | null): string | null =>
  given === NEVER ? null : given ?? current
