import type { LandfallClient, LandingPageSummary } from '#client'
import { listParts } from '../owner-client.ts'
import { formatBytes, formatTime, print, printList, printProgress } from '../output.ts'

// The commands that read pages through the API.

interface JsonOption {
  readonly json?: boolean
}

interface ListOptions extends JsonOption {
  readonly search?: string
  readonly sort?: 'created' | 'updated' | 'label'
}

export async function list (
  { landingPages }: LandfallClient,
  { json = false, search, sort }: ListOptions
): Promise<void> {
  const listPage = landingPages.summariesPage
  await printList(listParts(async (options) => await listPage({ ...options, q: search, sort })), {
    json,
    empty: search === undefined ? 'There are no pages yet' : 'There are no such pages',
    headings: ['ID', 'PUBLIC ID', 'VERSION', 'SIZE', 'CHANGED', 'STATE', 'KEY', 'LABEL'],
    toRow: (page) => [
      page.id,
      page.public_id,
      String(page.version),
      formatSize(page),
      formatTime(page.updated_at),
      formatState(page),
      page.key ?? '',
      page.label ?? ''
    ],
    toJson: ({ reads, ...page }) => page
  })
}

/** Prints the document of a page, or of an earlier version of it. */
export async function get (
  { landingPages }: LandfallClient,
  id: string,
  { revision }: { revision?: number }
): Promise<void> {
  const { text, etag } = revision === undefined ? await landingPages.getDocument(id)
    : await landingPages.getRevision(id, revision)
  print(text)
  if (!process.stdout.isTTY) printProgress(`ETag: ${etag}`)
}

export async function showHistory (
  { landingPages }: LandfallClient,
  id: string,
  { json = false }: JsonOption
): Promise<void> {
  await printList(listParts(async (options) => await landingPages.revisionsPage(id, options)), {
    json,
    empty: 'There are no versions',
    headings: ['VERSION', 'SIZE', 'WRITTEN', 'STATE', 'BY', 'RESTORED FROM'],
    toRow: (revision) => [
      String(revision.version),
      formatSize(revision),
      formatTime(revision.created_at),
      `${revision.published ? '' : 'not '}published${revision.scheduled ? ', scheduled' : ''}`,
      `${revision.author.type === 'user' ? '' : 'key '}${revision.author.name}`,
      String(revision.restored_from ?? '')
    ]
  })
}

const formatSize = ({ byte_size: size }: { byte_size: number }): string => formatBytes(size)

/** Says what readers get, and what is going to change that. */
const formatState = (page: LandingPageSummary): string =>
  [
    page.published ? 'published' : 'unpublished',
    ...page.has_draft ? ['draft'] : [],
    ...page.publish_at === null ? [] : [`publish ${formatTime(page.publish_at)}`],
    ...page.unpublish_at === null ? [] : [`unpublish ${formatTime(page.unpublish_at)}`]
  ].join(', ')
