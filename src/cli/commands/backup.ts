import { resolve } from 'node:path'
import { auditCommand, loadCommandConfig } from '../operator.ts'
import { createBackup } from '../backup/create.ts'
import type { Problem } from '../backup/compare.ts'
import type { WorkOptions } from '../backup/common.ts'
import { sumBytes, type AssetRows, type PastSchedule } from '../backup/rows.ts'
import { restoreBackup } from '../backup/restore.ts'
import { verifyBackup, verifyService } from '../backup/verify.ts'
import { createProgressPrinter, formatBytes, formatCount, print } from '../output.ts'

// The commands for backups. All return the exit code: 1 when a problem was found.

interface Report {
  /** Printed to standard output. */
  readonly summary: string
  readonly problems: readonly Problem[]
  /** The line above the problems. */
  readonly problemsTitle: string
}

export async function backup (directory: string): Promise<number> {
  const target = resolve(directory)
  return await runInterruptibly(async (options) => {
    const config = loadCommandConfig()
    const { rows, deleted, problems } = await createBackup(config, target, options)
    const without = deleted.length === 0 ? ''
      : `, without ${formatCount(deleted.length, 'asset')} deleted during the backup`
    const reminder = config.DATABASE_URL === undefined ? ''
      : '\nThe settings are not in the backup: keep JWT_SECRET elsewhere.'
    return {
      summary: `Copied the database and ${describeAssets(rows)} to ${target}${without}.${reminder}`,
      problems,
      problemsTitle: 'The backup is complete, but files of the service are missing or damaged'
    }
  })
}

export async function restore (directory: string): Promise<number> {
  return await runInterruptibly(async (options) => {
    const { rows, problems, pastSchedules } = await restoreBackup(
      loadCommandConfig(),
      resolve(directory),
      options
    )
    auditCommand('restore', { assets: rows.size })
    const lost = problems.filter(({ kind }) => kind === 'no file').length
    const without = lost === 0 ? '' : `, ${lost} of them without their file`
    return {
      summary: `Restored the database and ${describeAssets(rows)}${without}.` +
        describePastSchedules(pastSchedules),
      problems,
      problemsTitle: 'Everything in the backup was restored, but the backup has missing or damaged files'
    }
  })
}

const describeAssets = (rows: AssetRows): string =>
  `${formatCount(rows.size, 'asset')} (${formatBytes(sumBytes(rows))})`

function describePastSchedules (schedules: readonly PastSchedule[]): string {
  if (schedules.length === 0) return ''
  const lines = schedules.map(({ publicId, change, at }) =>
    `\n  ${publicId} is ${change}, due ${at.toISOString()}`
  )
  return `\nSchedules that have passed are carried out when the service starts:${lines.join('')}`
}

/** Compares the rows of the assets with their files, in the service or in a backup. */
export async function verify (directory: string | undefined): Promise<number> {
  return await runInterruptibly(async (options) => {
    const config = loadCommandConfig()
    const { rows, problems, unfinished, foreignReason } = directory === undefined
      ? await verifyService(config, options) : await verifyBackup(resolve(directory), options)
    if (rows === undefined) {
      return {
        summary: 'The uploads were not checked.',
        problems,
        problemsTitle: 'The copy of the database is damaged and cannot be restored'
      }
    }
    const amount = `${formatCount(rows.size, 'asset')}, ${formatBytes(sumBytes(rows))}.`
    const result = problems.length === 0
      ? `Every asset has a file, and every file has an asset: ${amount}` : `Checked ${amount}`
    const unfinishedNote = unfinished === 0 ? '' : `\n${formatCount(unfinished, 'file')} of uploads in ` +
      'progress or interrupted; the service removes leftovers after an hour.'
    const note = foreignReason === undefined ? unfinishedNote : `\n${foreignReason}.`
    return { summary: `${result}${note}`, problems, problemsTitle: 'The files and the database do not match' }
  })
}

async function runInterruptibly (command: (options: WorkOptions) => Promise<Report>): Promise<number> {
  const stop = new AbortController()
  // Without a listener, a write past the file size limit would end the process before it can report EFBIG.
  process.on('SIGXFSZ', () => {})
  // `on`, because Ctrl-C arrives twice under npm (from the terminal and from npm). With `once`, the second
  // signal would end the process before it has cleaned up.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => stop.abort(new Error(`it was stopped by ${signal}`)))
  }

  const { summary, problems, problemsTitle } = await command({
    signal: stop.signal,
    onProgress: createProgressPrinter()
  })
  print(`${summary}\n`)
  if (problems.length === 0) return 0
  const lines = problems.map(({ key, text }) => `  ${key} ${text}\n`)
  process.stderr.write(`${problemsTitle}: ${formatCount(problems.length, 'problem')}\n${lines.join('')}`)
  return 1
}
