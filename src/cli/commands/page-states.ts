import { InvalidArgumentError } from 'commander'
import type { Receipt } from '#client'
import { readInput, toDocument } from '../input.ts'
import { createOwnerClient, explainErrors, listParts } from '../owner-client.ts'
import { formatBytes, formatTime, print, printList, printProgress } from '../output.ts'

// The commands for drafts, previews, publication and the trash, through the API. All return the exit code.

interface PublishOptions {
  readonly ifMatch?: string
  readonly baseVersion?: number
  readonly wait?: number
}

export async function publish (id: string, options: PublishOptions): Promise<number> {
  const { landingPages } = createOwnerClient()
  const before = await landingPages.publication(id).catch(() => undefined) // publish() says what is wrong
  const { etag, receipt } = await explainErrors(landingPages.publish(id, options))
  const outcome = before?.published === true && before.draft === null
    ? 'Nothing to publish: the page is published and has no draft'
    : 'Published'
  printProgress(`${outcome}. ETag: ${etag}`)
  return reportReceipt(options, receipt)
}

export async function unpublish (id: string, options: PublishOptions): Promise<number> {
  const { etag, receipt } = await explainErrors(createOwnerClient().landingPages.unpublish(id, options))
  printProgress(`Unpublished. ETag: ${etag}`)
  return reportReceipt(options, receipt)
}

/** Returns the exit code: 1 if the command has waited and doesn't know whether readers get the change. */
function reportReceipt ({ wait }: PublishOptions, receipt: Receipt | undefined): number {
  if (wait === undefined) return 0
  const isSettled = receipt?.settled === true
  printProgress(isSettled ? 'Readers get it everywhere'
    : `After ${wait} s it is not known whether readers get it everywhere`)
  return isSettled ? 0 : 1
}

export async function listTrash ({ json = false }: { json?: boolean }): Promise<number> {
  const { landingPages } = createOwnerClient()
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
    ],
    toJson: (page) => page
  })
  return 0
}

export async function undelete (id: string): Promise<number> {
  const { published, etag } = await explainErrors(createOwnerClient().landingPages.undelete(id))
  printProgress(`Restored, ${published ? 'published' : 'unpublished'} and without a schedule. ETag: ${etag}`)
  return 0
}

export async function purge (id: string): Promise<number> {
  await explainErrors(createOwnerClient().landingPages.purge(id))
  print(`Removed ${id}\n`)
  return 0
}

interface DraftOptions {
  readonly discard?: boolean
  readonly ifMatch?: string
}

/** Prints the draft of a page, writes it from a file, or discards it. */
export async function draft (
  id: string,
  file: string | undefined,
  { discard = false, ifMatch }: DraftOptions
): Promise<number> {
  const { landingPages } = createOwnerClient()
  if (discard) {
    if (file !== undefined) throw new InvalidArgumentError('Either name a file, or use --discard')
    await explainErrors(landingPages.discardDraft(id, { ifMatch }))
    printProgress('Discarded the draft')
    return 0
  }
  if (file !== undefined) {
    const document = toDocument(await readInput(file))
    const { etag } = await explainErrors(landingPages.putDraft(id, document, { ifMatch }))
    printProgress(`ETag: ${etag}`)
    return 0
  }
  const { text, etag } = await explainErrors(landingPages.getDraft(id, { ifMatch }))
  print(text)
  if (!process.stdout.isTTY) printProgress(`ETag: ${etag}`)
  return 0
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
  id: string,
  { list = false, revoke, json = false, ...link }: PreviewOptions
): Promise<number> {
  const { landingPages } = createOwnerClient()
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
      ],
      toJson: (found) => found
    })
  } else if (revoke !== undefined) {
    await explainErrors(landingPages.deletePreviewLink(id, revoke))
    printProgress('Revoked the preview link')
  } else {
    const made = await explainErrors(landingPages.createPreviewLink(id, link))
    print(json ? `${JSON.stringify(made)}\n` : `${made.token}\n`)
    printProgress(`Expires ${formatTime(made.expires_at)}; to revoke it: --revoke ${made.id}`)
  }
  return 0
}
