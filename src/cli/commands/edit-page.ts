import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LandfallError, type LandfallClient } from '#client'
import { confirm } from '../confirm.ts'
import { createOwnerClient } from '../owner-client.ts'
import { printProgress } from '../output.ts'
import { NOTHING_CHANGED, putDocument, readDocument, reportEtag, review, type ChangeOptions,
  type CurrentDocument, type Written } from './page-changes.ts'

/** Opens the document of a page in an editor and stores what was saved. Returns the exit code. */
export async function edit (id: string, options: ChangeOptions): Promise<number> {
  const client = createOwnerClient()
  const current = await readDocument(client, id, options)
  const folder = await mkdtemp(join(tmpdir(), 'landfall-')) // only its owner may use it
  const file = join(folder, `${id}.json`)
  try {
    await writeFile(file, current.bytes, { mode: 0o600, flag: 'wx' })
    const written = await editAndWrite(client, id, file, current, options)
    if (written === undefined) printProgress(NOTHING_CHANGED)
    else reportEtag(written)
    await rm(folder, { recursive: true })
    return 0
  } catch (error) {
    const edited = await readFile(file).catch(() => undefined)
    if (edited !== undefined && !isUnchanged(current.bytes, edited)) {
      throw new Error(`${(error as Error).message}\nYour text is in ${file}`)
    }
    await rm(folder, { recursive: true })
    throw error
  }
}

/** Returns undefined if nothing was changed in the editor. */
async function editAndWrite (
  client: LandfallClient,
  id: string,
  file: string,
  current: CurrentDocument,
  options: ChangeOptions
): Promise<Written | undefined> {
  while (true) {
    await runEditor(file)
    const bytes = await readFile(file)
    if (isUnchanged(current.bytes, bytes)) return undefined
    if (!await review(current, { name: 'edited', bytes }, options)) throw new Error(NOTHING_CHANGED)
    try {
      return await putDocument(client, id, bytes, current.etag)
    } catch (error) {
      if (!isRefused(error) || !process.stdin.isTTY) throw error
      process.stderr.write(`${(error as Error).message}\n`)
      if (!await confirm('Edit again? [y/N] ')) throw new Error(NOTHING_CHANGED)
    }
  }
}

/** Whether the service refused the document itself, so that another edit may help. */
const isRefused = (error: unknown): boolean =>
  error instanceof LandfallError && [400, 413, 422].includes(error.status)

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
