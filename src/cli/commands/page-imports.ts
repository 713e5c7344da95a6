import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LandfallError, NotFoundError, type LandfallClient } from '#client'
import { createFileError, pathOf, readFileOfFolder, readInput, toDocument } from '../input.ts'
import { explain, ServiceAddressError } from '../owner-client.ts'
import { PAGE_KEY, PAGE_KEY_RULE } from '../../infra/system/identifiers.ts'
import { print, printList, printProgress, replaceControlCharacters } from '../output.ts'

// The commands that create pages from files through the API.

interface CreateOptions {
  readonly key?: string
  readonly unpublished?: boolean
  readonly json?: boolean
}

export async function create (
  { landingPages }: LandfallClient,
  file = '-',
  { key, unpublished = false, json = false }: CreateOptions
): Promise<void> {
  const document = toDocument(await readInput(file))
  const page = await landingPages.create(document, { key: key ?? null, published: !unpublished })
  const { id, public_id: publicId, version, published } = page
  print(json ? `${JSON.stringify({ id, public_id: publicId, key: page.key, version, published })}\n`
    : `${id}\n`)
  printProgress(`Public id: ${publicId}`)
}

/** What has become of a file. */
interface Imported {
  readonly file: string
  readonly result: 'created' | 'changed' | 'same' | 'failed'
}

const EXTENSION = '.json'
/** Statuses of requests that fail because of the file. Others would fail for all files. */
const FILE_STATUSES = [400, 412, 413, 422]

/**
 * Makes each `*.json` of a folder the page whose key is its name. Running it again goes on.
 *
 * @returns the exit code
 */
export async function importFolder (
  client: LandfallClient,
  folder: string,
  { json = false }: { json?: boolean }
): Promise<number> {
  const names = await readdir(pathOf(folder)).catch((error: NodeJS.ErrnoException) => {
    throw createFileError(folder, error)
  })
  const files = names.filter((name) => name.endsWith(EXTENSION)).sort()
  const counts = { created: 0, changed: 0, same: 0, failed: 0 }
  async function* results () {
    for (const file of files) {
      const result = await importFile(client, folder, file)
      counts[result]++
      yield [{ file, result }] // one at a time, so that progress is seen
    }
  }
  await printList<Imported>(results(), {
    json,
    empty: `There are no files *${EXTENSION} in this folder`,
    headings: ['RESULT ', 'FILE'],
    toRow: ({ file, result }) => [result.padEnd(7), file]
  })
  printProgress(Object.entries(counts).map(([result, count]) => `${count} ${result}`).join(', '))
  return counts.failed === 0 ? 0 : 1
}

async function importFile (
  client: LandfallClient,
  folder: string,
  file: string
): Promise<Imported['result']> {
  try {
    const key = file.slice(0, -EXTENSION.length)
    if (!PAGE_KEY.test(key)) {
      throw new Error(`The page can't have this key: its name before .json ${PAGE_KEY_RULE}`)
    }
    const path = join(folder, file)
    if (!(await lstat(pathOf(path))).isFile()) throw new Error('This is a link or not a file')
    return await write(client, key, await readFileOfFolder(path))
  } catch (error) {
    if (isOfService(error)) throw error
    process.stderr.write(`${replaceControlCharacters(file)}: ${explain(error)}\n`)
    return 'failed'
  }
}

/** Whether the import can't go on. */
const isOfService = (error: unknown): boolean =>
  error instanceof LandfallError ? !FILE_STATUSES.includes(error.status)
    : error instanceof ServiceAddressError

async function write (
  { landingPages }: LandfallClient,
  key: string,
  bytes: Buffer
): Promise<'created' | 'changed' | 'same'> {
  const document = toDocument(bytes)
  const page = await landingPages.getByKey(key).catch((error: unknown) => {
    if (error instanceof NotFoundError) return undefined
    throw error
  })
  const condition = page === undefined ? { createOnly: true } : { ifMatch: page.etag }
  const { etag } = await landingPages.putByKey(key, document, condition)
  if (page === undefined) return 'created'
  // The tag of a page begins with its document's. The same bytes have made no version.
  return page.etag.startsWith(`${etag.slice(0, -1)}.`) ? 'same' : 'changed'
}
