import { join } from 'node:path'
import { compare, type AssetRows, type Problem } from './asset-rows.ts'
import { backedUpAssets, liveDatabase, UPLOADS, type Place } from './databases.ts'
import { damageOf, readManifest } from './manifest.ts'
import { begin, type WorkOptions } from './progress.ts'
import { folderUploads, withUploads, type Uploads } from './uploads.ts'

// Every row has its file, with its size and its checksum; every file has its row.

export interface VerifyReport {
  readonly assets: number
  readonly bytes: bigint
  readonly problems: readonly Problem[]
  /** Young files without a row: of uploads under way or broken off. The service removes what is left of them. */
  readonly unfinished: number
  /** The copy of the database is damaged; the uploads could not be compared with it. */
  readonly isDamaged: boolean
}

/** The sweep of the uploads spares files without a row for so long. */
const UNFINISHED_MS = 60 * 60 * 1000

/** Checks a service, which may be running. */
export async function verifyService (place: Place, options: WorkOptions = {}): Promise<VerifyReport> {
  return await withUploads(place, async (uploads) => await verifyUploads(place, uploads, options))
}

async function verifyUploads (place: Place, uploads: Uploads, options: WorkOptions): Promise<VerifyReport> {
  const database = liveDatabase(place)
  begin(options, 'reading the database')
  const rows = await database.assets(options.signal)
  const found = await compare(rows, uploads, options)

  let unfinished = 0
  const problems: Problem[] = []
  // What was uploaded or deleted while the files were read is no problem.
  const now = found.some(({ kind }) => kind === 'no file' || kind === 'no row') ? await database.assets(options.signal) : rows
  for (const problem of found) {
    const { key, kind } = problem
    if (kind === 'no file' && !now.has(key)) continue
    if (kind === 'no row') {
      if (now.has(key)) continue
      const info = await uploads.store.look(key)
      if (info === undefined) continue
      if (Date.now() - info.namedAtMs < UNFINISHED_MS) {
        unfinished++
        continue
      }
    }
    problems.push(problem)
  }
  return { assets: rows.size, bytes: sizeOf(rows), problems, unfinished, isDamaged: false }
}

/** Checks a backup, and leaves it as it is. */
export async function verifyBackup (directory: string, options: WorkOptions = {}): Promise<VerifyReport> {
  const manifest = await readManifest(directory)
  const damage = await damageOf(directory, manifest, options)
  if (damage.length > 0) return { assets: manifest.assets, bytes: 0n, problems: damage, unfinished: 0, isDamaged: true }
  const { kind, schema, deleted } = manifest
  begin(options, 'reading the copy of the database')
  const rows = await backedUpAssets(directory, kind, schema, options.signal)
  for (const key of deleted) rows.delete(key)
  const problems = await compare(rows, folderUploads(join(directory, UPLOADS)), options)
  return { assets: rows.size, bytes: sizeOf(rows), problems, unfinished: 0, isDamaged: false }
}

export const sizeOf = (rows: AssetRows): bigint => [...rows.values()].reduce((sum, { byteSize }) => sum + byteSize, 0n)
