import type { FileStore } from '../../modules/assets/storage/file-store.ts'
import { isStorageKey } from '../../modules/assets/storage/storage-key.ts'
import { forEachConcurrently } from '../../infra/system/semaphore.ts'
import type { AssetRow, AssetRows } from './rows.ts'
import { computeChecksum } from './files.ts'
import { startStep, type WorkOptions } from './common.ts'
import type { Uploads } from './uploads.ts'

/** A row and a file that do not match. */
export interface Problem {
  /** The name of the file, which is the `storage_key` of the row. */
  readonly key: string
  readonly kind: 'no file' | 'wrong size' | 'wrong checksum' | 'unreadable' | 'no row'
  /** The rest of a sentence that begins with the name. */
  readonly text: string
}

/** The result of a backup, a restore or a check. */
export interface Report {
  readonly assets: number
  readonly bytes: bigint
  /** Missing and damaged files, and files without a row. */
  readonly problems: readonly Problem[]
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
    const problem = await compareFile(store, key, row).catch((error: unknown) => {
      const code = (error as NodeJS.ErrnoException).code ?? ''
      const reason = /^E[A-Z]+$/.test(code) ? code : lastError() || String(error)
      return { kind: 'unreadable', text: `can't be read (${reason})` } as const
    })
    if (problem !== undefined) problems.push({ key, ...problem })
    done(Number(row.byteSize))
  })
  for await (const key of store.keys()) {
    if (!rows.has(key) && await store.stat(key) !== undefined) {
      problems.push({ key, kind: 'no row', text: 'has no row in the database' })
    }
  }
  return problems
}

async function compareFile (
  store: FileStore,
  key: string,
  { byteSize, checksum }: AssetRow
): Promise<Omit<Problem, 'key'> | undefined> {
  // The row may come from a forged backup, and its key may be the path of any file on this machine.
  if (!isStorageKey(key)) {
    return { kind: 'no file', text: 'is in the database, but is not a name that the service creates' }
  }
  const file = await store.open(key, true)
  if (file === undefined) return { kind: 'no file', text: 'is missing' }
  try {
    if (BigInt(file.byteSize) !== byteSize) {
      return { kind: 'wrong size', text: `has ${file.byteSize} bytes instead of ${byteSize}` }
    }
    const actual = await computeChecksum(await file.read())
    return actual === checksum ? undefined
      : { kind: 'wrong checksum', text: `has the checksum ${actual} instead of ${checksum}` }
  } finally {
    await file.close()
  }
}
