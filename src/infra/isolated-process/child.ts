import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { clock } from '../system/clock.ts'
import type { Response, Question } from './serve-tasks.ts'

/** The end of what the child process writes to its standard error, for the log. */
const MAX_ERROR_LENGTH = 2000

/** The shell sets the limits and then becomes Node. Linux ends this process first when memory runs out. */
const SHELL = `ulimit -c 0
ulimit -d "$0" 2>/dev/null
{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
if [ "$1" = idle ]; then chrt --idle --pid 0 $$ 2>/dev/null; fi
shift
exec nice -n "$@"`

/** `idle` yields at once. With niceness alone, a process would use up its time slice first. */
const NICENESS = { low: 5, idle: 19 }

export interface ChildOptions {
  /** A script that calls `serveTasks`. */
  readonly script: URL
  /** Limits of all memory and of the heap of JavaScript, in MiB. */
  readonly memoryMib: number
  readonly heapMib: number
  readonly priority: keyof typeof NICENESS
}

/** One task. */
export interface Exchange<Result, T> {
  /** The name of its handler. */
  readonly kind: string
  /** What the handler gets, as `structuredClone` copies it. */
  readonly task: unknown
  /** Bytes for the handler, exactly `byteSize`. */
  readonly input?: Readable
  readonly byteSize?: number
  /** Reads the response to its end. */
  readonly take?: (result: Result, bytes: AsyncIterable<Uint8Array>) => Promise<T>
}

/**
 * - `unavailable`: no task was lost: the process could not start, or ended between two tasks
 * - `too_costly`: it was ended because the task used too much processor time
 * - `too_slow`: it was ended because the task took too long, for example on a busy machine
 * - `ended`: it ended by itself while it had the task
 */
type EndReason = 'unavailable' | 'too_costly' | 'too_slow' | 'ended'

export class IsolatedProcessError extends Error {
  override readonly name = 'IsolatedProcessError'
  readonly reason: EndReason
  /** SIGABRT: the heap was full. SIGKILL: somebody else ended it. Null: it has exited by itself. */
  readonly signal: NodeJS.Signals | null

  constructor (message: string, reason: EndReason, signal: NodeJS.Signals | null) {
    super(message)
    this.reason = reason
    this.signal = signal
  }
}

/** User and system time of a process and all its threads, in hundredths of a second: fields 14 and 15. */
const CPU_TIMES = /\) \S(?: \S+){10} (\d+) (\d+) /
const HAS_PROC = existsSync('/proc/self/stat')

/** A child process that runs tasks, one at a time. */
export class Child {
  readonly #process: ChildProcessWithoutNullStreams
  /** Resolves when the process can run tasks. */
  readonly started: Promise<unknown>
  /** Rejects when the process has ended. */
  readonly ended: Promise<never>
  #hasTask = false
  #givenUp: 'too_costly' | 'too_slow' | undefined
  #usedMs = 0
  #errors = ''

  constructor ({ script, memoryMib, heapMib, priority }: ChildOptions) {
    const path = fileURLToPath(script)
    const child = spawn('/bin/sh', [
      '-c',
      SHELL,
      String(memoryMib * 1024),
      priority,
      String(NICENESS[priority]),
      process.execPath,
      `--max-old-space-size=${heapMib}`,
      ...path.endsWith('.ts') ? ['--import', import.meta.resolve('tsx')] : [],
      path
    ], {
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
      serialization: 'advanced', // four times as fast as JSON for a megabyte
      // without the settings of the service, such as its secrets
      env: { PATH: process.env.PATH, MALLOC_ARENA_MAX: '2', UV_THREADPOOL_SIZE: '1' }
    }) as ChildProcessWithoutNullStreams
    this.#process = child
    this.ended = new Promise((_resolve, reject) => {
      const end = (how: string, signal: NodeJS.Signals | null = null) => {
        const reason = this.#hasTask ? this.#givenUp ?? 'ended' : 'unavailable'
        const name = path.replace(/^.*\//, '')
        reject(new IsolatedProcessError(`${name} ended (${how}): ${this.#errors}`, reason, signal))
      }
      child.once('error', ({ message }) => end(message))
        .once('close', (code, signal) => end(signal ?? `exit code ${code}`, signal))
    })
    this.started = Promise.race([this.ended, once(child, 'message')])
    for (const promise of [this.ended, this.started]) promise.catch(() => {}) // awaited by the caller
    // If no file descriptor is free, the child has no streams, and emits an error.
    const { stdin, stderr } = child as Partial<ChildProcessWithoutNullStreams>
    stdin?.on('error', () => {}) // the process has ended
    stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-MAX_ERROR_LENGTH)
    })
  }

  /** Known before `ended`, which waits for the ends of the streams. */
  get hasEnded (): boolean {
    const { exitCode, signalCode } = this.#process
    return exitCode !== null || signalCode !== null
  }

  /** Reads the processor time used so far, or until the end, in ms. Without /proc: the time that passed. */
  measureUsedMs (): number {
    if (!HAS_PROC) return clock.now()
    try {
      const stat = readFileSync(`/proc/${this.#process.pid}/stat`, 'latin1')
      const [, user, system] = CPU_TIMES.exec(stat) ?? []
      this.#usedMs = 10 * (Number(user) + Number(system))
    } catch {} // it has ended
    return this.#usedMs
  }

  /** Passes a task to the process and its response to the caller. */
  async exchange<Result, T> ({ kind, task, input, byteSize = 0, take }: Exchange<Result, T>): Promise<T> {
    const { stdin, stdout } = this.#process
    this.#hasTask = true
    const responded = once(this.#process, 'message')
    responded.catch(() => {})
    const question: Question = { kind, task, byteSize }
    this.#process.send(question)
    for await (const chunk of input ?? []) {
      // A broken pipe is seen before the end of the process that broke it.
      if (!stdin.write(chunk)) await once(stdin, 'drain').catch(async () => await this.ended)
    }
    const [response] = await responded as [Response]
    this.#hasTask = false
    if (take === undefined) return response.result as T
    return await take(response.result as Result, readExactly(stdout, response.byteSize))
  }

  giveUp (reason: 'too_costly' | 'too_slow'): void {
    this.#givenUp = reason
    this.end()
  }

  end (): void {
    this.#process.kill('SIGKILL')
  }
}

/** Reads a number of bytes, and leaves the stream open. Nothing follows them before the next task. */
async function* readExactly (stream: Readable, byteSize: number): AsyncGenerator<Uint8Array> {
  if (byteSize === 0) return
  let received = 0
  for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
    received += chunk.length
    yield chunk
    if (received >= byteSize) return
  }
  throw new IsolatedProcessError(
    'The child process ended before the end of its response',
    'unavailable',
    null
  )
}
