import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Parser } from 'tap-parser'
import { FOLDER_PREFIX, type Guardian } from '../shared/guardian.ts'
import { compiledPath } from './compile.ts'
import { collectResults, NO_TEST, type Collector, type FileResult } from './results.ts'
import type { Order } from './worker.ts'

// Runs test files in worker processes and reads their results. docs/adr/0011-test-layout.md says why tap's
// own command line is not used.

export interface SuiteOptions {
  jobs: number
  /** Time limit for one file, in seconds. */
  timeoutSeconds: number
  /** Environment of the test files. */
  env: NodeJS.ProcessEnv
  /** Parent of the temporary folders of the workers. */
  temporaryFolder: string
  /** Whether standard error of the files is passed to `progress` line by line. */
  follow: boolean
  guardian: Guardian
  report: (result: FileResult) => void
  progress: (line: string) => void
}

export interface Suite {
  /** Resolves when all files have run. */
  readonly finished: Promise<void>
  /** Kills the running workers and starts no further file. */
  abort(): Promise<void>
}

interface Ended {
  code: number | null
  signal: string | null
}

const PROGRESS_INTERVAL_MS = 30_000
/** Additional time after a file's timeout, in which tap reports the test that timed out. */
const GRACE_MS = 5_000
/** Time limit for a worker to exit after its last file. */
const END_TIMEOUT_MS = 30_000
/** Time limit for a worker's guardian to stop its servers. */
const GUARDIAN_TIMEOUT_MS = 15_000
/** Marks a file that gets its own process. Files in test/system always do. */
const OWN_PROCESS = /^\/\/ Runs in a process of its own\b/m
const END_OF_FILE = /^end of file, exit code (\d+)/

export function runSuite (files: readonly string[], options: SuiteOptions): Suite {
  const waiting = [...files]
  const workers = new Set<Worker>()
  const start = (): Worker => {
    const worker = new Worker(options)
    workers.add(worker)
    return worker
  }
  const end = async (worker: Worker): Promise<FileResult | undefined> => {
    const problem = await worker.end()
    workers.delete(worker)
    return problem
  }
  const runSlot = async () => {
    let shared: Worker | undefined
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const isShared = sharesProcess(file)
      const worker = isShared ? shared ??= start() : start()
      const result = await worker.run(file)
      const hasFailed = result.failures.length > 0
      // After a failure the worker may be unable to exit or to run another file.
      if (hasFailed) worker.kill()
      if (hasFailed || !isShared) result.failures.push(...(await end(worker))?.failures ?? [])
      if (hasFailed && isShared) shared = undefined
      options.report(result)
    }
    const problem = shared && await end(shared)
    if (problem !== undefined) options.report(problem)
  }
  const finished = Promise.all(Array.from({ length: options.jobs }, runSlot)).then(() => {})
  return {
    finished,
    async abort () {
      waiting.length = 0
      for (const worker of workers) worker.kill()
      await finished
    }
  }
}

function sharesProcess (file: string): boolean {
  return /^test\/(unit|integration)\//.test(file) && !OWN_PROCESS.test(readFileSync(file, 'utf8'))
}

/** A process that runs test files, with its results. */
class Worker {
  readonly #options: SuiteOptions
  readonly #child: ChildProcess
  readonly #exited: Promise<Ended>
  readonly #parsed: Promise<unknown>
  readonly #folder: string
  readonly #files: string[] = []
  #isKilled = false
  #results: Collector | undefined
  #endFile: (ended: Ended) => void = () => {}

  constructor (options: SuiteOptions) {
    this.#options = options
    this.#folder = mkdtempSync(join(options.temporaryFolder, 'worker-'))
    // Servers of a test run as other accounts, which have to enter the folder.
    chmodSync(this.#folder, 0o711)
    const program = ['--enable-source-maps', '--liftoff-only', compiledPath('test/runner/worker.ts')]
    // A group of its own, so that processes that tests start can be ended with the worker.
    const child = spawn(process.execPath, program, {
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...options.env, TMPDIR: this.#folder, TAP_TIMEOUT: '0' }
    })
    this.#child = child
    if (child.pid !== undefined) options.guardian.add(-child.pid, 'KILL')
    child.stdin.on('error', () => {})
    const parser = new Parser()
    this.#parsed = once(parser, 'complete')
    this.#listen(parser)
    child.stdout.pipe(parser)
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.#results?.addOutput(text))
    if (options.follow) createInterface(child.stderr).on('line', (line) => options.progress(`  ${line}`))
    this.#exited = once(child, 'exit').then(
      ([code, signal]) => ({ code, signal }) as Ended,
      (error) => ({ code: null, signal: String(error) })
    )
    this.#exited.then((ended) => this.#endFile(ended))
  }

  #listen (parser: Parser): void {
    parser.on('child', (child) => this.#results?.listen(child))
    parser.on('extra', (text) => this.#results?.addOutput(text))
    parser.on('assert', ({ ok, name }) => {
      const [, code] = END_OF_FILE.exec(name) ?? []
      if (code !== undefined) this.#endFile({ code: Number(code), signal: null })
      else if (!ok) this.#results?.addFileFailure()
    })
  }

  async run (file: string): Promise<FileResult> {
    const { timeoutSeconds, progress, follow } = this.#options
    const started = performance.now()
    const results = this.#results = collectResults(file)
    const ended = new Promise<Ended>((resolve) => {
      this.#endFile = resolve
    })
    const seconds = () => Math.round((performance.now() - started) / 1000)
    if (follow) progress(`started ${file}`)
    const reminder = setInterval(
      () => progress(`still running after ${seconds()} s: ${file}`),
      PROGRESS_INTERVAL_MS
    )
    const limit = setTimeout(() => {
      results.addFailure(`did not end within ${timeoutSeconds} s and was killed`)
      this.kill()
    }, timeoutSeconds * 1000 + GRACE_MS)
    this.#files.push(file)
    const order: Order = { file, path: resolve(compiledPath(file)), timeoutMs: timeoutSeconds * 1000 }
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`)
    const { code, signal } = await ended
    clearInterval(reminder)
    clearTimeout(limit)
    return results.finish({ code, signal, milliseconds: performance.now() - started })
  }

  /**
   * Lets the process exit.
   *
   * @returns a failure if it doesn't exit, because a test left something open, or exits with an error
   */
  async end (): Promise<FileResult | undefined> {
    const results = this.#results = collectResults(`the process of ${this.#files.length} files`)
    const started = performance.now()
    this.#child.stdin?.end()
    const limit = setTimeout(() => {
      results.addFailure('did not end after the last test: something is still open')
      this.kill()
    }, END_TIMEOUT_MS)
    const { code, signal } = await this.#exited
    clearTimeout(limit)
    if (!this.#isKilled && (code !== 0 || signal !== null)) {
      results.addFailure(`ended with ${signal ?? `exit code ${code}`} after the last test`)
    }
    // Processes that the tests left running would keep the output open.
    this.kill()
    if (this.#child.pid !== undefined) this.#options.guardian.forget(-this.#child.pid)
    await this.#parsed
    await guardianDone(this.#folder)
    const result = results.finish({ code: 0, signal: null, milliseconds: performance.now() - started })
    return result.failures.some(({ name }) => name !== NO_TEST) ? result : undefined
  }

  kill (): void {
    this.#isKilled = true
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL')
    } catch {
      // All processes of the group have ended.
    }
  }
}

async function guardianDone (folder: string): Promise<void> {
  const deadline = Date.now() + GUARDIAN_TIMEOUT_MS
  while (
    Date.now() < deadline && existsSync(folder) &&
    readdirSync(folder).some((name) => name.startsWith(FOLDER_PREFIX))
  ) {
    await sleep(20)
  }
}
