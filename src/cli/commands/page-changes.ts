import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { InvalidArgumentError } from 'commander'
import { exactJson, LandfallError, type LandfallClient } from '#client'
import { confirm } from '../confirm.ts'
import { formatDiff, type NamedDocument } from '../document-diff.ts'
import { createOwnerClient, explainErrors } from '../owner-client.ts'
import { printProgress } from '../output.ts'

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

/** What a write returns. */
export interface Written {
  readonly etag: string
}

export const NOTHING_CHANGED = 'Nothing was changed'

/** Replaces the document of a page by a file or standard input. */
export async function put (id: string, file = '-', options: ChangeOptions): Promise<number> {
  const client = createOwnerClient()
  const bytes = await readInput(file)
  const write = async (ifMatch?: string) => await putDocument(client, id, bytes, ifMatch)
  return await reviewAndWrite(client, id, { name: file === '-' ? 'new' : file, bytes }, write, options)
}

/** Restores an earlier version of a page. */
export async function restore (id: string, version: number, options: ChangeOptions): Promise<number> {
  const client = createOwnerClient()
  const { landingPages } = client
  const write = async (ifMatch?: string) =>
    await explainErrors(landingPages.restoreRevision(id, version, { ifMatch }))
  if (!process.stdin.isTTY) return reportEtag(await write(options.ifMatch))
  const { text } = await explainErrors(landingPages.getRevision(id, version))
  const next = { name: `version ${version}`, bytes: Buffer.from(text) }
  return await reviewAndWrite(client, id, next, write, options)
}

/** Writes at once, or on a terminal after a look at the changes and only if nobody else changes the page. */
async function reviewAndWrite (
  client: LandfallClient,
  id: string,
  next: NamedDocument,
  write: (ifMatch?: string) => Promise<Written>,
  options: ChangeOptions
): Promise<number> {
  if (!process.stdin.isTTY) return reportEtag(await write(options.ifMatch))
  const current = await readDocument(client, id, options)
  if (Buffer.compare(current.bytes, next.bytes) === 0) {
    printProgress(`${NOTHING_CHANGED}: the page already has this document`)
    return 0
  }
  if (!await review(current, next, options)) throw new Error(NOTHING_CHANGED)
  return reportEtag(await write(current.etag))
}

/** Reads the current document of a page. */
export async function readDocument (
  { landingPages }: LandfallClient,
  id: string,
  { ifMatch }: ChangeOptions
): Promise<CurrentDocument> {
  const { text, etag } = await explainErrors(landingPages.getDocument(id, { ifMatch }))
  return { name: 'current', bytes: Buffer.from(text), etag }
}

/** Replaces the document of a page. */
export async function putDocument (
  { api, landingPages }: LandfallClient,
  id: string,
  bytes: Uint8Array,
  ifMatch: string | undefined
): Promise<Written> {
  const text = decodeJson(bytes)
  if (text !== undefined) {
    return await explainErrors(landingPages.putDocument(id, exactJson(text), { ifMatch }))
  }
  // The service refuses the bytes, and says where the error is.
  const { error, response } = await api.PUT('/manage/landing_pages/{id}/document', {
    params: { path: { id } },
    headers: { 'if-match': ifMatch },
    body: {},
    bodySerializer: () => bytes
  })
  return await explainErrors(Promise.reject(new LandfallError(response, error?.errors ?? [])))
}

/** Shows on a terminal what would change, and asks. Returns whether to write. */
export async function review (
  current: NamedDocument,
  next: NamedDocument,
  { yes = false }: ChangeOptions
): Promise<boolean> {
  if (!process.stdin.isTTY || decodeJson(next.bytes) === undefined) return true
  process.stderr.write(formatDiff(current, next))
  return yes || await confirm('Write this? [y/N] ')
}

/** Prints the entity tag of the written page. Returns the exit code. */
export function reportEtag ({ etag }: Written): number {
  printProgress(`ETag: ${etag}`)
  return 0
}

/** Returns undefined for bytes that aren't JSON in UTF-8. */
function decodeJson (bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    JSON.parse(text)
    return text
  } catch {
    return undefined
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
