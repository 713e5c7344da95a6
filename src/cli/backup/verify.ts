import { join } from 'node:path'
import { readAssetRows, requiresFile, type AssetRows } from './rows.ts'
import { compareUploads, type Problem } from './compare.ts'
import { areForeign, wrongOwnerMessage } from '../../modules/assets/storage/owner.ts'
import { identifyDatabase } from '../../infra/postgres/identity-repository.ts'
import { withConnection } from '../../infra/postgres/pool.ts'
import { readBackedUpRows, withLiveDatabase } from './databases.ts'
import { type BackupConfig, startStep, UPLOADS, type WorkOptions } from './common.ts'
import { findDamage, readManifest } from './manifest.ts'
import { openBackupUploads, withUploads, type Uploads } from './uploads.ts'

// Checks that every row has a file with the right size and checksum, and that every file has a row.

export interface VerifyReport {
  /** Undefined if the copy of the database is damaged. Then the uploads were not compared with it. */
  readonly rows?: AssetRows
  readonly problems: readonly Problem[]
  /** Files without a row that are less than an hour old. Their upload is in progress or was interrupted. */
  readonly unfinished: number
  /** Why the service removes no files without a row; undefined if it does. */
  readonly foreignReason?: string
}

/** A younger file without a row may be an unfinished upload. The service removes older ones. */
const UNFINISHED_UPLOAD_MS = 60 * 60 * 1000

/** Checks a service, which may be running. */
export async function verifyService (
  config: BackupConfig,
  options: WorkOptions = {}
): Promise<VerifyReport> {
  return await withUploads(config, async (uploads) => {
    startStep(options, 'reading the database')
    const rows = await withLiveDatabase(config, readAssetRows)
    const found = await compareUploads(rows, uploads, options)

    // An asset may have been uploaded or deleted while the files were read.
    const isSuspicious = ({ kind }: Problem) => kind === 'no file' || kind === 'no row'
    const rowsNow = found.some(isSuspicious) ? await withLiveDatabase(config, readAssetRows) : rows
    const problems: Problem[] = []
    let unfinished = 0
    const isForeign = found.some(({ kind }) => kind === 'no row') &&
      await belongToAnotherService(config, uploads, rowsNow)
    for (const problem of found) {
      if (problem.kind === 'no file' && !requiresFile(rowsNow, problem.key)) continue
      if (problem.kind === 'no row') {
        const ageMs = rowsNow.has(problem.key) ? undefined : await fileAgeMs(uploads, problem.key)
        if (ageMs === undefined) continue
        if (ageMs < UNFINISHED_UPLOAD_MS && !isForeign) {
          unfinished++
          continue
        }
      }
      problems.push(problem)
    }
    return { rows, problems, unfinished, ...isForeign && { foreignReason: wrongOwnerMessage(uploads.store) } }
  })
}

/** Whether the service would refuse to remove files without a row. */
async function belongToAnotherService (
  config: BackupConfig,
  { store }: Uploads,
  rows: AssetRows
): Promise<boolean> {
  const owner = await store.owner()
  if (owner !== undefined) {
    const { id } = await withLiveDatabase(
      config,
      async (connection) => await withConnection(connection, identifyDatabase)
    )
    if (owner === id) return false
  }
  return await areForeign(store, owner, async (keys) => new Set(keys.filter((key) => rows.has(key))))
}

async function fileAgeMs ({ store }: Uploads, key: string): Promise<number | undefined> {
  const info = await store.stat(key)
  return info && Date.now() - info.publishedAtMs
}

/** Checks a backup, without changing it. */
export async function verifyBackup (directory: string, options: WorkOptions = {}): Promise<VerifyReport> {
  const manifest = await readManifest(directory)
  const damage = await findDamage(directory, manifest, options)
  if (damage.length > 0) return { problems: damage, unfinished: 0 }
  startStep(options, 'reading the copy of the database')
  const rows = await readBackedUpRows(directory, manifest, options.signal)
  for (const key of manifest.deleted) rows.delete(key)
  const problems = await compareUploads(rows, openBackupUploads(join(directory, UPLOADS)), options)
  return { rows, problems, unfinished: 0 }
}
