import type { Report } from './compare.ts'
import { sumBytes } from './asset-rows.ts'
import { findDamage, readManifest } from './manifest.ts'
import { type BackupConfig, BackupError, type WorkOptions } from './common.ts'
import type { PastSchedule } from './past-schedules.ts'
import { restoreEmbedded } from './restore-embedded.ts'
import { restorePostgresql } from './restore-postgresql.ts'

export interface RestoreReport extends Report {
  /** Assets whose files the backup does not have. All others were restored. */
  readonly lost: number
  readonly pastSchedules: readonly PastSchedule[]
}

/**
 * Restores a backup into the database and the folders of the settings, which must be empty. The backup is not
 * changed.
 *
 * @throws {BackupError|DataDirError|Error} with one line for the user; restored data is removed again
 */
export async function restoreBackup (
  config: BackupConfig,
  directory: string,
  options: WorkOptions = {}
): Promise<RestoreReport> {
  const manifest = await readManifest(directory)
  const kind = config.DATABASE_URL === undefined ? 'embedded' : 'postgresql'
  if (manifest.kind !== kind) {
    throw new BackupError(manifest.kind === 'embedded'
      ? `${directory} holds an embedded database, which can't be restored into PostgreSQL: unset DATABASE_URL`
      : `${directory} comes from PostgreSQL: set DATABASE_URL to an empty database`)
  }
  const damage = await findDamage(directory, manifest, options)
  if (damage.length > 0) {
    throw new BackupError(`${directory} is damaged (${damage.length} of the files of its database, such as ${
      damage[0]?.key
    }): restore another backup`)
  }
  const restore = kind === 'embedded' ? restoreEmbedded : restorePostgresql
  const { rows, problems, pastSchedules } = await restore(config, directory, manifest, options)
  const lost = problems.filter((problem) => problem.kind === 'no file').length
  return { assets: rows.size, lost, bytes: sumBytes(rows), problems, pastSchedules }
}
