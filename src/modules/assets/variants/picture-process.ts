import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { PictureResult, PictureTask } from './picture-task.ts'

/** Time for one variant: starting the child process, reading the original, making and storing it. */
const TIME_LIMIT_MS = 60_000
/** An idle child process ends, because it holds some 100 MB. */
const IDLE_MS = 30_000
/** The end of what the child process writes to its standard error, for the log. */
const MAX_ERROR_LENGTH = 2000
const MIB = 1024 * 1024
/** A JPEG of 12 million pixels needs 200 MiB, an AVIF of 25 million needs 640 MiB. */
const MIN_MEMORY_MIB = 256
const MAX_MEMORY_MIB = 640

/** The child process ended while it made a variant: the picture took too much, or made sharp crash. */
export class PictureProcessError extends Error {
  override readonly name = 'PictureProcessError'
}

/** The child process could not start, or was ended for a reason that has nothing to do with the picture. */
export class NoPictureProcessError extends Error {
  override readonly name = 'NoPictureProcessError'
}

/** The answer to a task. `bytes` has the variant if it was made; the caller must read it to its end. */
export type PictureAnswer =
  | { readonly outcome: 'made', readonly bytes: AsyncIterable<Uint8Array> }
  | Exclude<PictureResult, { outcome: 'made' }>

/**
 * Returns the memory of a child process, in MiB: half of the container's, divided among the workers of the
 * service, each of which has such a process.
 */
export function memoryLimit (workers: number): number {
  const available = process.constrainedMemory() / MIB || Infinity
  return Math.round(Math.min(MAX_MEMORY_MIB, Math.max(MIN_MEMORY_MIB, available / 2 / workers)))
}

/** A child process that makes variants, one at a time. It starts with the first one, and again if it ends. */
export class PictureProcess {
  readonly #memoryMib: number
  readonly #timeLimitMs: number
  #child: Child | undefined
  #idleTimer: NodeJS.Timeout | undefined

  /** @param memoryMib limit of the memory that it may allocate, in MiB */
  constructor (memoryMib: number, timeLimitMs = TIME_LIMIT_MS) {
    this.#memoryMib = memoryMib
    this.#timeLimitMs = timeLimitMs
  }

  /**
   * Makes a variant, and passes the answer to `take`. The caller must wait for its end before the next one.
   *
   * @param input the bytes of the original
   * @throws {PictureProcessError} if the child process ended because of the picture
   * @throws {NoPictureProcessError} if it could not start, or the machine or the storage was too slow
   * @throws the error of `input` or of `take`
   */
  async run<T> (
    task: PictureTask,
    input: Readable,
    take: (answer: PictureAnswer) => Promise<T>
  ): Promise<T> {
    clearTimeout(this.#idleTimer)
    // An idle process may have been ended, for example because the system ran out of memory.
    if (this.#child?.hasEnded === true) this.#child = undefined
    let child: Child | undefined
    let isTooLate = false
    const timer = setTimeout(() => {
      isTooLate = true
      child?.end()
    }, this.#timeLimitMs)
    try {
      child = this.#child ??= new Child(this.#memoryMib)
      const result = await Promise.race([child.ended, child.exchange(task, input, take)])
      this.#idleTimer = setTimeout(() => this.close(), IDLE_MS).unref()
      return result
    } catch (error) {
      const phase = child?.phase
      // Bytes that were not read would be taken for those of the next variant.
      this.close()
      // A picture that takes too much processor time makes the process end itself, usually long before that.
      const isItsFault = !isTooLate && (phase === 'reading' || phase === 'making')
      if (error instanceof PictureProcessError && !isItsFault) throw new NoPictureProcessError(error.message)
      throw error
    } finally {
      clearTimeout(timer)
      input.destroy()
    }
  }

  /** Ends the child process. A task under way fails. */
  close (): void {
    clearTimeout(this.#idleTimer)
    this.#child?.end()
    this.#child = undefined
  }
}

class Child {
  readonly process: ChildProcessWithoutNullStreams
  /** Rejects when the process has ended. */
  readonly ended: Promise<never>
  readonly #ready: Promise<unknown>
  #errors = ''
  /** What the process does, or did when it ended. */
  phase: 'starting' | 'idle' | 'reading' | 'making' | 'storing' = 'starting'
  hasEnded = false

  constructor (memoryMib: number) {
    const extension = extname(import.meta.url) // .ts when the service runs from its sources
    const script = fileURLToPath(new URL(`./picture-worker${extension}`, import.meta.url))
    // The shell sets the limits and then becomes Node. The settings of the service are not passed on.
    // In the idle class, the process yields at once. With `nice` alone it would use up its time slice first.
    this.process = spawn('/bin/sh', [
      '-c',
      'ulimit -c 0; ulimit -d "$0" 2>/dev/null; chrt --idle --pid 0 $$ 2>/dev/null; exec "$@"',
      String(memoryMib * 1024),
      process.execPath,
      '--max-old-space-size=64',
      ...extension === '.ts' ? ['--import', import.meta.resolve('tsx')] : [],
      script
    ], {
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
      env: { PATH: process.env.PATH, MALLOC_ARENA_MAX: '2', UV_THREADPOOL_SIZE: '1' }
    }) as ChildProcessWithoutNullStreams
    this.ended = new Promise((_resolve, reject) => {
      const end = (reason: string) => {
        this.hasEnded = true
        reject(new PictureProcessError(`The child process that makes variants ended (${reason}): ${this.#errors}`))
      }
      this.process.once('error', ({ message }) => end(message))
        .once('close', (code, signal) => end(signal ?? `exit code ${code}`))
    })
    this.#ready = once(this.process, 'message')
    // Without free file descriptors there are no streams, and an 'error' follows.
    const { stdin, stderr } = this.process as Partial<ChildProcessWithoutNullStreams>
    stdin?.on('error', () => {}) // the process has ended
    stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors = (this.#errors + text).slice(-MAX_ERROR_LENGTH)
    })
    for (const promise of [this.ended, this.#ready]) promise.catch(() => {}) // awaited by exchange()
  }

  async exchange<T> (
    task: PictureTask,
    input: Readable,
    take: (answer: PictureAnswer) => Promise<T>
  ): Promise<T> {
    const { process: child } = this
    await this.#ready
    this.phase = 'reading'
    const answered = once(child, 'message')
    answered.catch(() => {})
    child.send(task)
    for await (const chunk of input) {
      // A broken pipe is seen before the end of the process that broke it.
      if (!child.stdin.write(chunk)) await once(child.stdin, 'drain').catch(async () => await this.ended)
    }
    this.phase = 'making'
    const [result] = await answered as [PictureResult]
    this.phase = 'storing'
    const taken = await take(result.outcome === 'made'
      ? { outcome: 'made', bytes: readExactly(child.stdout, result.byteSize) } : result)
    this.phase = 'idle'
    return taken
  }

  end (): void {
    this.process.kill('SIGKILL')
  }
}

/** Reads a number of bytes, and leaves the stream open. Nothing follows them before the next task. */
async function* readExactly (stream: Readable, byteSize: number): AsyncGenerator<Uint8Array> {
  let received = 0
  for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
    received += chunk.length
    yield chunk
    if (received >= byteSize) return
  }
  throw new PictureProcessError('The child process that makes variants ended before its answer')
}
