import { createHash } from 'node:crypto'
import type { OpenFile } from '../../modules/assets/storage/file-store.ts'
import { isStorageKey } from '../../modules/assets/storage/storage-key.ts'
import { forEachConcurrently } from '../../infra/system/semaphore.ts'
import type { AssetRows } from './rows.ts'
import { startStep, type WorkOptions } from './common.ts'
import type { Uploads } from './uploads.ts'

/** A file that is not what its row, or the manifest of a backup, says. */
export interface Problem {
  /** The name of the file: the `storage_key` of the row, or the path in the backup. */
  readonly key: string
  readonly kind: 'no file' | 'damaged' | 'no row'
  /** The rest of a sentence that begins with the name. */
  readonly text: string
}

/**
 * Compares every row with its file, byte by byte, and looks for files without a row. Ignores files whose
 * names the service can't have created.
 */
export async function compareUploads (
  rows: AssetRows,
  { store, lastError }: Uploads,
  options: WorkOptions
): Promise<Problem[]> {
  const problems: Problem[] = []
  const done = startStep(options, 'checking the uploads', rows.size)
  await forEachConcurrently(rows, store.filesAtOnce, async ([key, row]) => {
    // The row may come from a forged backup, and its key may be the path of any file on this machine.
    const problem: Problem | undefined = isStorageKey(key)
      ? await compareFile(key, async () => await store.open(key, true), row, lastError)
      : { key, kind: 'no file', text: 'is in the database, but is not a name that the service creates' }
    if (problem !== undefined) problems.push(problem)
    done(Number(row.byteSize))
  })
  for await (const key of store.keys()) {
    if (!rows.has(key) && await store.stat(key) !== undefined) {
      problems.push({ key, kind: 'no row', text: 'has no row in the database' })
    }
  }
  return problems
}

/** Checks the size and the checksum of a file. @returns undefined if both are right */
export async function compareFile (
  key: string,
  open: () => Promise<OpenFile | undefined>,
  { byteSize, checksum }: { readonly byteSize: bigint, readonly checksum: string },
  lastError = () => ''
): Promise<Problem | undefined> {
  let file: OpenFile | undefined
  try {
    file = await open()
    if (file === undefined) return { key, kind: 'no file', text: 'is missing' }
    if (BigInt(file.byteSize) !== byteSize) {
      return { key, kind: 'damaged', text: `has ${file.byteSize} bytes instead of ${byteSize}` }
    }
    const actual = await computeChecksum(file)
    return actual === checksum ? undefined
      : { key, kind: 'damaged', text: `has the checksum ${actual} instead of ${checksum}` }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    const reason = /^E[A-Z]+$/.test(code) ? code : lastError() || String(error)
    return { key, kind: 'damaged', text: `can't be read (${reason})` }
  } finally {
    await file?.close()
  }
}

/** Reads a file to its end. @returns its SHA-256, hex */
export async function computeChecksum (file: OpenFile): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of await file.read()) hash.update(chunk)
  return hash.digest('hex')
}
