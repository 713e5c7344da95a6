import { resolve } from 'node:path'
import type { Problem } from '../backup/asset-rows.ts'
import { createBackup } from '../backup/backup.ts'
import type { WorkOptions } from '../backup/progress.ts'
import { restoreBackup } from '../backup/restore.ts'
import { verifyBackup, verifyService } from '../backup/verify.ts'
import type { Config } from '../config.ts'
import type { Input } from './commands.ts'
import { count, print, progressLines, size } from './output.ts'
import { commandSettings } from './settings.ts'

/** Lines of a list that nobody reads to its end. */
const MAX_LINES = 1000

interface Outcome {
  readonly done: string
  readonly problems: readonly Problem[]
  readonly title: string
}

/** Copies everything to a new folder. */
export const backupCommand = working(async (config, directory, options) => {
  const { kind, assets, bytes, deleted, problems } = await createBackup(config, directory as string, options)
  const less = deleted === 0 ? '' : `, less ${count(deleted, 'asset')} deleted meanwhile`
  const secret = kind === 'embedded' ? '' : '\nIts settings are not in it: keep JWT_SECRET elsewhere.'
  return { done: `Copied the database and ${count(assets, 'asset')} (${size(bytes)}) to ${directory}${less}.${secret}`, problems, title: 'The copy is complete, but the service lacks what its database names' }
})

/** Puts a backup where a service will start on it. */
export const restoreCommand = working(async (config, directory, options) => {
  const { assets, lost, bytes, problems } = await restoreBackup(config, directory as string, options)
  const less = lost === 0 ? '' : `, ${lost} of them without their file`
  return { done: `Restored the database and ${count(assets, 'asset')} (${size(bytes)})${less}.`, problems, title: 'All of the backup was restored, but it is damaged' }
})

/** Compares rows with files, of the service or of a backup. */
export const verifyCommand = working(async (config, directory, options) => {
  const { assets, bytes, problems, unfinished, isDamaged } = directory === undefined ? await verifyService(config, options) : await verifyBackup(directory, options)
  if (isDamaged) return { done: 'The uploads were not checked.', problems, title: 'The copy of the database is damaged, and can not be restored' }
  const young = unfinished === 0 ? '' : `\n${count(unfinished, 'file')} of uploads under way or broken off; the service removes what is left of them after an hour.`
  const well = problems.length === 0 ? `Every asset has its file and every file its asset: ${count(assets, 'asset')}, ${size(bytes)}.` : `Checked ${count(assets, 'asset')}, ${size(bytes)}.`
  return { done: `${well}${young}`, problems, title: 'Files and database don\'t belong together' }
})

function working (work: (config: Config, directory: string | undefined, options: WorkOptions) => Promise<Outcome>) {
  return async ({ operands: [directory] }: Input): Promise<number> => {
    const config = commandSettings()
    const stop = new AbortController()
    // Beyond a limit on the size of files the system ends a process that doesn't listen, before it can say so.
    process.on('SIGXFSZ', () => {})
    // More than once: npm hands on the signal that the terminal has sent already.
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(new Error(`it was stopped by ${signal}`)))

    const { done, problems, title } = await work(config, directory === undefined ? undefined : resolve(directory), { signal: stop.signal, onProgress: progressLines() })
    print(`${done}\n`)
    if (problems.length === 0) return 0
    process.stderr.write(`${title}: ${count(problems.length, 'problem')}\n`)
    for (const { key, text } of problems.slice(0, MAX_LINES)) process.stderr.write(`  ${key} ${text}\n`)
    if (problems.length > MAX_LINES) process.stderr.write(`  and ${problems.length - MAX_LINES} more\n`)
    return 1
  }
}
