import { JsonReader } from '#json-text'
import { Api } from '../api.ts'
import { formatBytes, formatTime, print, printList, printProgress } from '../output.ts'

// The commands that read pages through the API. All return the exit code.

interface JsonOption {
  readonly json?: boolean
}

interface PageEntry {
  readonly id: string
  readonly public_id: string
  readonly version: number
  readonly byte_size: number
  readonly created_at: string
  readonly updated_at: string
}

interface Revision {
  readonly version: number
  readonly byte_size: number
  readonly created_at: string
  readonly author: { readonly type: string, readonly name: string }
  readonly restored_from: number | null
}

/** The path of a page in the API. @param id an id without special characters */
export const pagePath = (id: string): string => `/manage/landing_pages/${id}`

/** The path of the document of a page, or of an earlier version of it. */
export const documentPath = (id: string, version?: string): string =>
  `${pagePath(id)}/${version === undefined ? 'document' : `revisions/${version}`}`

/** Lists the pages of the account. */
export async function list ({ json = false }: JsonOption): Promise<number> {
  await printList(listPages(new Api()), {
    json,
    empty: 'There are no pages yet',
    headings: ['ID', 'PUBLIC ID', 'VERSION', 'SIZE', 'CHANGED'],
    toRow: (
      page
    ) => [page.id, page.public_id, String(page.version), formatSize(page), formatTime(page.updated_at)],
    toJson: (page) => page
  })
  return 0
}

/** Prints the document of a page, or of an earlier version of it. */
export async function get (id: string, { revision }: { revision?: string }): Promise<number> {
  const answer = await new Api().request('GET', documentPath(id, revision))
  print(answer.body)
  if (!process.stdout.isTTY) printProgress(`ETag: ${answer.headers.get('etag')}`)
  return 0
}

/** Lists the versions of a page. */
export async function showHistory (id: string, { json = false }: JsonOption): Promise<number> {
  await printList(listRevisions(new Api(), id), {
    json,
    empty: 'There are no versions',
    headings: ['VERSION', 'SIZE', 'WRITTEN', 'BY', 'RESTORED FROM'],
    toRow: (revision) => [
      String(revision.version),
      formatSize(revision),
      formatTime(revision.created_at),
      `${revision.author.type === 'user' ? '' : 'key '}${revision.author.name}`,
      String(revision.restored_from ?? '')
    ],
    toJson: (revision) => revision
  })
  return 0
}

const formatSize = ({ byte_size: size }: { byte_size: number }): string => formatBytes(BigInt(size))

async function* listPages (api: Api): AsyncGenerator<PageEntry[]> {
  for await (const part of api.list('/manage/landing_pages')) {
    const text = part.toString()
    const sizes = findDocumentSizes(text)
    yield (JSON.parse(text) as PageEntry[]).map((page, index) => ({
      id: page.id,
      public_id: page.public_id,
      version: page.version,
      byte_size: sizes[index] as number,
      created_at: page.created_at,
      updated_at: page.updated_at
    }))
  }
}

async function* listRevisions (api: Api, id: string): AsyncGenerator<Revision[]> {
  for await (const part of api.list(`${pagePath(id)}/revisions`)) yield JSON.parse(part.toString())
}

/** Returns the sizes of the documents in a JSON array of records. Parsed documents have lost their sizes. */
function findDocumentSizes (records: string): number[] {
  const sizes: number[] = []
  const reader = new JsonReader(records)
  for (let type = reader.next(); type !== 'end'; type = reader.next()) {
    if (reader.depth !== 2 || type !== 'name' || reader.decode() !== 'current_data') continue
    const isContainer = reader.next() === 'open'
    const { start } = reader
    if (isContainer) reader.skip()
    sizes.push(Buffer.byteLength(records.slice(start, reader.end)))
  }
  return sizes
}
