import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { InvalidArgumentError } from 'commander'
import { Api, type ApiAnswer } from '../api.ts'
import { confirm } from '../confirm.ts'
import { formatDiff, type NamedDocument } from '../document-diff.ts'
import { printProgress } from '../output.ts'
import { documentPath, pagePath } from './pages.ts'

// The commands that change pages through the API. All return the exit code.

export interface ChangeOptions {
  /** The entity tag that the document must have. */
  readonly ifMatch?: string
  readonly yes?: boolean
}

/** The current document of a page. */
export interface CurrentDocument extends NamedDocument {
  readonly etag: string
}

export const NOTHING_CHANGED = 'Nothing was changed'

/** Replaces the document of a page by a file or standard input. */
export async function put (id: string, file = '-', options: ChangeOptions): Promise<number> {
  const api = new Api()
  const bytes = await readInput(file)
  const write = async (ifMatch?: string) => await putDocument(api, id, bytes, ifMatch)
  return await reviewAndWrite(api, id, { name: file === '-' ? 'new' : file, bytes }, write, options)
}

/** Restores an earlier version of a page. */
export async function restore (id: string, version: string, options: ChangeOptions): Promise<number> {
  const api = new Api()
  const write = async (ifMatch?: string) =>
    await api.request('POST', `${pagePath(id)}/revisions/${version}/restore`, { ifMatch })
  if (!process.stdin.isTTY) return reportEtag(await write(options.ifMatch))
  const { body: bytes } = await api.request('GET', documentPath(id, version))
  return await reviewAndWrite(api, id, { name: `version ${version}`, bytes }, write, options)
}

/** Writes at once, or on a terminal after a look at the changes and only if nobody else changes the page. */
async function reviewAndWrite (
  api: Api,
  id: string,
  next: NamedDocument,
  write: (ifMatch?: string) => Promise<ApiAnswer>,
  options: ChangeOptions
): Promise<number> {
  if (!process.stdin.isTTY) return reportEtag(await write(options.ifMatch))
  const current = await readDocument(api, id, options)
  if (Buffer.compare(current.bytes, next.bytes) === 0) {
    printProgress(`${NOTHING_CHANGED}: the page already has this document`)
    return 0
  }
  if (!await review(current, next, options)) throw new Error(NOTHING_CHANGED)
  return reportEtag(await write(current.etag))
}

/** Reads the current document of a page. */
export async function readDocument (
  api: Api,
  id: string,
  { ifMatch }: ChangeOptions
): Promise<CurrentDocument> {
  const { body, headers } = await api.request('GET', documentPath(id), { ifMatch })
  return { name: 'current', bytes: body, etag: headers.get('etag') ?? '' }
}

/** Replaces the document of a page. */
export const putDocument = async (
  api: Api,
  id: string,
  bytes: Uint8Array,
  ifMatch: string | undefined
): Promise<ApiAnswer> => await api.request('PUT', documentPath(id), { ifMatch, body: bytes })

/** Shows on a terminal what would change, and asks. Returns whether to write. */
export async function review (
  current: NamedDocument,
  next: NamedDocument,
  { yes = false }: ChangeOptions
): Promise<boolean> {
  // The service refuses what isn't JSON, and says where the error is.
  if (!process.stdin.isTTY || !isJson(next.bytes)) return true
  process.stderr.write(formatDiff(current, next))
  return yes || await confirm('Write this? [y/N] ')
}

/** Prints the entity tag of the written page. Returns the exit code. */
export function reportEtag ({ headers }: ApiAnswer): number {
  printProgress(`ETag: ${headers.get('etag')}`)
  return 0
}

function isJson (bytes: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return true
  } catch {
    return false
  }
}

/** The folder in which the command was called. `npm run landfall` changes to the project's. */
const workingFolder = (): string =>
  process.env.npm_lifecycle_event === 'landfall' ? process.env.INIT_CWD ?? '' : ''

async function readInput (file: string): Promise<Buffer> {
  if (file !== '-') {
    return await readFile(resolve(workingFolder(), file)).catch((error: NodeJS.ErrnoException) => {
      throw new Error(`${file} can't be read: ${error.code ?? error.message}`)
    })
  }
  if (process.stdin.isTTY) {
    throw new InvalidArgumentError('Name a file, or send the document to standard input')
  }
  return await buffer(process.stdin)
}
