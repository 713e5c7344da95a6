import { resolve } from 'node:path'
import { ConfigError, loadConfig, readEnvironment, type Config } from '../config.ts'
import type { Problem } from './asset-rows.ts'
import { createBackup } from './backup.ts'
import type { Progress, WorkOptions } from './progress.ts'
import { restoreBackup } from './restore.ts'
import { verifyBackup, verifyService } from './verify.ts'

// npm run backup, restore and verify: the arguments, the progress, the exit code.

const USAGE = `npm run backup -- DIR     copies database and uploads to DIR, a new folder; the service may be running
npm run restore -- DIR    puts the backup in DIR into the empty database and folders of the settings
npm run verify            checks that every asset has its file and every file its asset; the service may be running
npm run verify -- DIR     checks the same in a backup

Exit code 0: done, and all is well; 1: it failed, or something is wrong; 2: the command is.
`
const PROGRESS_INTERVAL_MS = 2000
/** Lines of a list that nobody reads to its end. */
const MAX_LINES = 1000

type Command = (config: Config, directory: string | undefined, options: WorkOptions) => Promise<{ done: string, problems: readonly Problem[], title: string }>

const COMMANDS: Readonly<Record<string, Command>> = {
  async backup (config, directory, options) {
    const { kind, assets, bytes, deleted, problems } = await createBackup(config, directory as string, options)
    const less = deleted === 0 ? '' : `, less ${count(deleted, 'asset')} deleted meanwhile`
    const secret = kind === 'embedded' ? '' : '\nIts settings are not in it: keep JWT_SECRET elsewhere.'
    return { done: `Copied the database and ${count(assets, 'asset')} (${size(bytes)}) to ${directory}${less}.${secret}`, problems, title: 'The copy is complete, but the service lacks what its database names' }
  },
  async restore (config, directory, options) {
    const { assets, lost, bytes, problems } = await restoreBackup(config, directory as string, options)
    const less = lost === 0 ? '' : `, ${lost} of them without their file`
    return { done: `Restored the database and ${count(assets, 'asset')} (${size(bytes)})${less}.`, problems, title: 'All of the backup was restored, but it is damaged' }
  },
  async verify (config, directory, options) {
    const { assets, bytes, problems, unfinished, isDamaged } = directory === undefined ? await verifyService(config, options) : await verifyBackup(directory, options)
    if (isDamaged) return { done: 'The uploads were not checked.', problems, title: 'The copy of the database is damaged, and can not be restored' }
    const young = unfinished === 0 ? '' : `\n${count(unfinished, 'file')} of uploads under way or broken off; the service removes what is left of them after an hour.`
    const well = problems.length === 0 ? `Every asset has its file and every file its asset: ${count(assets, 'asset')}, ${size(bytes)}.` : `Checked ${count(assets, 'asset')}, ${size(bytes)}.`
    return { done: `${well}${young}`, problems, title: 'Files and database don\'t belong together' }
  }
}

async function main ([name = '', directory, ...rest]: readonly string[]): Promise<number> {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command === undefined || rest.length > 0 || directory?.startsWith('-') === true || (directory === undefined && name !== 'verify')) {
    process.stderr.write(USAGE)
    return 2
  }
  const environment = readEnvironment()
  // Nothing here needs a key of the access tokens, or what workers share.
  const config = loadConfig({ ...environment, WEB_CONCURRENCY: '1', JWT_SECRET: environment.JWT_SECRET || 'not used by backups'.padEnd(32, '.') })
  const stop = new AbortController()
  // Beyond a limit on the size of files the system ends a process that doesn't listen, before it can say so.
  process.on('SIGXFSZ', () => {})
  // More than once: npm hands on the signal that the terminal has sent already.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(new Error(`it was stopped by ${signal}`)))

  const { done, problems, title } = await command(config, directory === undefined ? undefined : resolve(directory), { signal: stop.signal, onProgress: progressLines() })
  process.stdout.write(`${done}\n`)
  if (problems.length === 0) return 0
  process.stderr.write(`${title}: ${count(problems.length, 'problem')}\n`)
  for (const { key, text } of problems.slice(0, MAX_LINES)) process.stderr.write(`  ${key} ${text}\n`)
  if (problems.length > MAX_LINES) process.stderr.write(`  and ${problems.length - MAX_LINES} more\n`)
  return 1
}

/** A line for each step, and one every two seconds in a long one. */
function progressLines (): (progress: Progress) => void {
  let step = ''
  let last = 0
  return (progress) => {
    const now = performance.now()
    if (progress.step !== step) process.stdout.write(`${progress.step} …\n`)
    else if (now - last < PROGRESS_INTERVAL_MS) return
    else process.stdout.write(`  ${progress.files}${progress.of === undefined ? '' : ` of ${progress.of}`} files, ${size(BigInt(progress.bytes))}\n`)
    step = progress.step
    last = now
  }
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`

function size (bytes: bigint): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = Number(bytes)
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++ }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

const argv = process.argv.slice(2)
main(argv).then((code) => { process.exitCode = code }, (error: unknown) => {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(error instanceof ConfigError ? `These settings can't be used:\n${message}\n` : `The ${argv[0]} failed: ${message}\n`)
  process.exitCode = 1
})
