import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Parser } from 'tap-parser'
import { FOLDER_PREFIX, type Guardian } from './guardian.ts'
import { collectResults, type FileResult } from './results.ts'

// Runs test files, each as a process of its own whose output tap's parser reads. tap's command line would do the same
// with a compiler plugin that has to be exchanged over the network first, and takes several times as long to start.

export interface SuiteOptions {
  jobs: number
  /** Longest time for one file, in seconds. */
  timeoutSeconds: number
  /** Environment of the test files. */
  env: NodeJS.ProcessEnv
  /** Parent of their temporary folders. */
  temporaryFolder: string
  bail: boolean
  /** Whether what a file writes to its standard error is passed to `progress` as it comes. */
  follow: boolean
  guardian: Guardian
  report: (result: FileResult) => void
  progress: (line: string) => void
}

export interface Suite {
  /** Resolves when every file has run. */
  readonly finished: Promise<void>
  /** Kills what is running and starts no more. */
  abort (): Promise<void>
}

const PROGRESS_INTERVAL_MS = 30_000
/** tap ends a test file itself at its timeout and says which test it was; this is how long it may take for that. */
const GRACE_MS = 5_000
/** A test file's guardian stops its servers within this time. */
const GUARDIAN_TIMEOUT_MS = 15_000

export function runSuite (files: readonly string[], options: SuiteOptions): Suite {
  const waiting = [...files]
  const running = new Set<ChildProcess>()
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const result = await runFile(file, options, running)
      options.report(result)
      if (options.bail && result.failures.length > 0) waiting.length = 0
    }
  }
  const finished = Promise.all(Array.from({ length: options.jobs }, worker)).then(() => {})
  return {
    finished,
    async abort () {
      waiting.length = 0
      for (const child of running) killGroup(child)
      await finished
    }
  }
}

async function runFile (file: string, options: SuiteOptions, running: Set<ChildProcess>): Promise<FileResult> {
  const started = performance.now()
  const temporaryFolder = mkdtempSync(join(options.temporaryFolder, 'file-'))
  // A test's own servers run as other accounts and have to get through.
  chmodSync(temporaryFolder, 0o711)
  // A group of its own, so that what the test starts can be ended with it.
  const child = spawn(process.execPath, ['--enable-source-maps', '--import=tsx', file], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...options.env, TMPDIR: temporaryFolder, TAP_TIMEOUT: String(options.timeoutSeconds) }
  })
  running.add(child)
  const group = child.pid === undefined ? undefined : -child.pid
  if (group !== undefined) options.guardian.add(group, 'KILL')
  const parser = new Parser()
  const results = collectResults(file, parser)
  const parsed = once(parser, 'complete')
  child.stdout.pipe(parser)
  child.stderr.setEncoding('utf8').on('data', results.addErrorOutput)
  if (options.follow) createInterface(child.stderr).on('line', (line) => options.progress(`  ${line}`))

  const seconds = () => Math.round((performance.now() - started) / 1000)
  if (options.follow) options.progress(`started ${file}`)
  const progress = setInterval(() => options.progress(`still running after ${seconds()} s: ${file}`), PROGRESS_INTERVAL_MS)
  const limit = setTimeout(() => {
    results.addFailure(`did not end within ${options.timeoutSeconds} s and was killed`)
    killGroup(child)
  }, options.timeoutSeconds * 1000 + GRACE_MS)
  const [code, signal] = await exitOf(child)
  clearInterval(progress)
  clearTimeout(limit)
  // Whatever it left running would hold its output open, and stay.
  killGroup(child)
  if (group !== undefined) options.guardian.forget(group)
  await parsed
  running.delete(child)
  await guardiansDone(temporaryFolder)
  return results.finish({ code, signal, milliseconds: performance.now() - started })
}

async function exitOf (child: ChildProcess): Promise<[number | null, string | null]> {
  try {
    return await once(child, 'exit') as [number | null, string | null]
  } catch (error) {
    return [null, String(error)]
  }
}

function killGroup (child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  } catch {
    // The group is empty already.
  }
}

async function guardiansDone (folder: string): Promise<void> {
  const deadline = Date.now() + GUARDIAN_TIMEOUT_MS
  while (Date.now() < deadline && existsSync(folder) && readdirSync(folder).some((name) => name.startsWith(FOLDER_PREFIX))) {
    await sleep(20)
  }
}
