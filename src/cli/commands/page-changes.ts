import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { styleText } from 'node:util'
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff'
import { LandfallError, type LandfallClient } from '#client'
import { formatJson } from '#json-text'
import { confirm, NotJsonError, readInput, toDocument } from '../input.ts'
import { explain } from '../owner-client.ts'
import { printProgress, formatBytes, showInvisibleCharacters } from '../output.ts'

// The commands that change pages through the API.

interface ChangeOptions {
  /** The entity tag that the document must have. */
  readonly ifMatch?: string
  readonly yes?: boolean
}

/** The current document of a page. */
interface CurrentDocument extends NamedDocument {
  readonly etag: string
}

type Written = Pick<CurrentDocument, 'etag'>

const NOTHING_CHANGED = 'Nothing was changed'

export async function put (
  { landingPages }: LandfallClient,
  id: string,
  file = '-',
  options: ChangeOptions
): Promise<void> {
  const bytes = await readInput(file)
  const document = toDocument(bytes)
  const write = async (ifMatch?: string) => await landingPages.putDocument(id, document, { ifMatch })
  await reviewAndWrite(landingPages, id, { name: file === '-' ? 'new' : file, bytes }, write, options)
}

export async function restore (
  { landingPages }: LandfallClient,
  id: string,
  version: number,
  options: ChangeOptions
): Promise<void> {
  const write = async (ifMatch?: string) => await landingPages.restoreRevision(id, version, { ifMatch })
  if (!process.stdin.isTTY) return reportEtag(await write(options.ifMatch))
  const { text } = await landingPages.getRevision(id, version)
  const next = { name: `version ${version}`, bytes: Buffer.from(text) }
  await reviewAndWrite(landingPages, id, next, write, options)
}

/** Writes at once, or on a terminal after a look at the changes and only if nobody else changes the page. */
async function reviewAndWrite (
  landingPages: LandfallClient['landingPages'],
  id: string,
  next: NamedDocument,
  write: (ifMatch?: string) => Promise<Written>,
  options: ChangeOptions
): Promise<void> {
  if (!process.stdin.isTTY) return reportEtag(await write(options.ifMatch))
  const current = await readDocument(landingPages, id, options)
  if (Buffer.compare(current.bytes, next.bytes) === 0) {
    printProgress(`${NOTHING_CHANGED}: the page already has this document`)
    return
  }
  if (!await review(current, next, options)) throw new Error(NOTHING_CHANGED)
  reportEtag(await write(current.etag))
}

async function readDocument (
  landingPages: LandfallClient['landingPages'],
  id: string,
  { ifMatch }: ChangeOptions
): Promise<CurrentDocument> {
  const { text, etag } = await landingPages.getDocument(id, { ifMatch })
  return { name: 'current', bytes: Buffer.from(text), etag }
}

/** Shows on a terminal what would change, and asks. Returns whether to write. */
async function review (
  current: NamedDocument,
  next: NamedDocument,
  { yes = false }: ChangeOptions
): Promise<boolean> {
  if (!process.stdin.isTTY) return true
  process.stderr.write(formatDiff(current, next))
  return yes || await confirm('Write this? [y/N] ')
}

/** Prints the entity tag of the written page. */
const reportEtag = ({ etag }: Written): void => printProgress(`ETag: ${etag}`)

/** Opens the document of a page in an editor and stores what was saved. */
export async function edit (
  { landingPages }: LandfallClient,
  id: string,
  options: ChangeOptions
): Promise<void> {
  const current = await readDocument(landingPages, id, options)
  const folder = await mkdtemp(join(tmpdir(), 'landfall-')) // only its owner may use it
  const file = join(folder, `${id}.json`)
  try {
    await writeFile(file, current.bytes, { mode: 0o600, flag: 'wx' })
    const written = await editAndWrite(landingPages, id, file, current, options)
    if (written === undefined) printProgress(NOTHING_CHANGED)
    else reportEtag(written)
    await rm(folder, { recursive: true })
  } catch (error) {
    const edited = await readFile(file).catch(() => undefined)
    if (edited !== undefined && !isUnchanged(current.bytes, edited)) {
      throw new Error(`${explain(error)}\nYour text is in ${file}`)
    }
    await rm(folder, { recursive: true })
    throw error
  }
}

/** Returns undefined if nothing was changed in the editor. */
async function editAndWrite (
  landingPages: LandfallClient['landingPages'],
  id: string,
  file: string,
  current: CurrentDocument,
  options: ChangeOptions
): Promise<Written | undefined> {
  while (true) {
    await runEditor(file)
    const bytes = await readFile(file)
    if (isUnchanged(current.bytes, bytes)) return undefined
    try {
      const document = toDocument(bytes)
      if (!await review(current, { name: 'edited', bytes }, options)) throw new Error(NOTHING_CHANGED)
      return await landingPages.putDocument(id, document, { ifMatch: current.etag })
    } catch (error) {
      if (!isRefused(error) || !process.stdin.isTTY) throw error
      process.stderr.write(`${explain(error)}\n`)
      if (!await confirm('Edit again? [y/N] ')) throw new Error(NOTHING_CHANGED)
    }
  }
}

/** Whether the document itself was refused, so that another edit may help. */
const isRefused = (error: unknown): boolean =>
  error instanceof NotJsonError || (error instanceof LandfallError && [413, 422].includes(error.status))

/** Also when the editor has only added a line break at the end, as vi does. */
const isUnchanged = (before: Uint8Array, after: Buffer): boolean =>
  [before, Buffer.concat([before, Buffer.from('\n')])].some((bytes) => after.equals(bytes))

/** @throws {Error} the editor can't be started or failed */
async function runEditor (file: string): Promise<void> {
  const editor = process.env.VISUAL || process.env.EDITOR || 'vi'
  const ignore = () => {}
  process.on('SIGINT', ignore) // Ctrl-C is for the editor
  try {
    // The setting is a command with options, so a shell has to split it.
    const child = spawn('sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' })
    const [code, signal] = await once(child, 'close') as [number | null, string | null]
    if (code !== 0) throw new Error(`The editor ${editor} ended with ${code ?? signal}: nothing was changed`)
  } finally {
    process.off('SIGINT', ignore)
  }
}

// Unified diffs of documents, for people.

/** Documents in one line that is longer than this are laid out before they are compared. */
const LONG_LINE = 100
const CONTEXT_LINES = 3
const MAX_BYTES = 8 * 1024 * 1024
/** The time to search for a short diff. */
const TIMEOUT_MS = 3000
const SHOWN_LINES = 400
const SHOWN_COLUMNS = 2000

/** Deeper levels are not indented further. */
const MAX_INDENT = 20

export interface NamedDocument {
  readonly name: string
  readonly bytes: Uint8Array
}

/** Returns a unified diff of two different documents in JSON. Control characters are made visible. */
export function formatDiff (before: NamedDocument, after: NamedDocument): string {
  const [oldSize, newSize] = [before, after].map(({ bytes }) => formatBytes(bytes.length))
  const tooMuch = `There is too much to show: ${oldSize} now, ${newSize} then.\n`
  if (before.bytes.length + after.bytes.length > MAX_BYTES) return tooMuch
  const texts = [before, after].map(({ bytes }) => new TextDecoder().decode(bytes))
  const isLaidOut = texts.some((text) => text.length > LONG_LINE && !text.trim().includes('\n'))
  const layOut = (text: string): string => `${formatJson(text, MAX_INDENT)}\n`
  const [from, to] = (isLaidOut ? texts.map(layOut) : texts) as [string, string]
  if (from === to) return 'Only white space or a byte order mark differs.\n'
  const patch = createTwoFilesPatch(before.name, after.name, from, to, undefined, undefined, {
    context: CONTEXT_LINES,
    headerOptions: FILE_HEADERS_ONLY,
    timeout: TIMEOUT_MS
  })
  if (patch === undefined) return tooMuch
  const note = isLaidOut ? 'The documents are laid out to compare them; white space is not shown.\n' : ''
  return `${note}${colour(showInvisibleCharacters(shorten(patch)))}`
}

function shorten (patch: string): string {
  const lines = patch.split('\n')
  const shown = lines.slice(0, SHOWN_LINES).map((line) =>
    line.length <= SHOWN_COLUMNS ? line
      : `${line.slice(0, SHOWN_COLUMNS)}… (${line.length - SHOWN_COLUMNS} more characters)`
  )
  return lines.length <= SHOWN_LINES ? shown.join('\n')
    : `${shown.join('\n')}\n… (${lines.length - SHOWN_LINES} more lines)\n`
}

const COLOURS = { '-': 'red', '+': 'green', '@': 'cyan' } as const

function colour (patch: string): string {
  if (!process.stderr.isTTY || !process.stderr.hasColors()) return patch
  return patch.replace(/^[-+@].*$/gm, (line) => styleText(COLOURS[line[0] as '-' | '+' | '@'], line))
}
