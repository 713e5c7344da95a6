import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startService, temporaryFolder, type Service } from './service.ts'
import type { Teardown } from './servers.ts'

// The built service as a process that can be made to die (SIGKILL) at any step of what it does.

export interface StopPoint {
  /**
   * The steps that count: `open NAME`, `write`, `sync`, `close`, `rename NAME`, `unlink NAME` on files, `query SQL` to
   * PostgreSQL, `redis command` to Redis.
   */
  readonly steps: RegExp
  /** Which of them, from 1. */
  readonly nth: number
  /**
   * Before it begins; after it has succeeded, when nobody has heard of it; or when it was handed over to the disk or to
   * the connection, where it can't be held: the process dies there at once.
   */
  readonly when: 'before' | 'during' | 'after'
}

export interface Stop {
  readonly step: string
  readonly when: StopPoint['when']
  /** 32 random bytes each in base64url, newest last: all refresh tokens that the process has made. */
  readonly secrets: readonly string[]
}

interface Control {
  /** Plans are numbered, so that each is counted from its own beginning. */
  stop: { number: number, steps: string, nth: number, when: StopPoint['when'] } | undefined
  aheadMs: number
}

const COMMAND = [process.execPath, '--import=./test/helpers/crash-points.js', 'dist/cli/landfall.js', 'serve'] as const

/** A service that dies on demand and is started again under the same address. */
export class Victim {
  readonly url: string
  readonly #t: Teardown
  readonly #env: Record<string, string>
  readonly #file: string
  readonly #control: Control
  #service: Service
  #plans = 0

  private constructor (t: Teardown, env: Record<string, string>, file: string, control: Control, service: Service) {
    this.#t = t
    this.#env = { ...env, PORT: new URL(service.url).port }
    this.#file = file
    this.#control = control
    this.#service = service
    this.url = service.url
  }

  static async start (t: Teardown, env: Record<string, string>): Promise<Victim> {
    const file = join(temporaryFolder(t), 'control')
    const control: Control = { stop: undefined, aheadMs: 0 }
    tell(file, control)
    const withFile = { ...env, TEST_CONTROL: file }
    return new Victim(t, withFile, file, control, await startService(t, withFile, COMMAND))
  }

  /**
   * Begins something that stands still on the way, until the process dies; others can be begun beside it. Undefined when
   * it got its answer without passing there.
   */
  async stopAt ({ steps, nth, when }: StopPoint, action: () => Promise<unknown>): Promise<Stop | undefined> {
    this.#control.stop = { number: ++this.#plans, steps: steps.source, nth, when }
    tell(this.#file, this.#control)
    const note = `${this.#file}.stopped`
    const outcome: { answered?: true, error?: unknown } = {}
    action().then(() => { outcome.answered = true }, (error: unknown) => { outcome.error = error })
    while (Object.keys(outcome).length === 0 && !existsSync(note)) await sleep(5)
    this.#control.stop = undefined
    tell(this.#file, this.#control)
    if (existsSync(note)) {
      const { step, secrets } = JSON.parse(readFileSync(note, 'utf8')) as Stop
      rmSync(note)
      return { step, when, secrets }
    }
    if (outcome.answered === true) return undefined
    throw new Error(`it failed before it came to its step:\n${this.#service.output()}`, { cause: outcome.error })
  }

  /** Ends it as a crash would. */
  async kill (): Promise<void> {
    await this.#service.end('SIGKILL')
  }

  /** Starts it again, when it is dead. */
  async restart (): Promise<void> {
    this.#service = await startService(this.#t, this.#env, COMMAND)
  }

  /** Lets its clocks jump. */
  advance (ms: number): void {
    this.#control.aheadMs += ms
    tell(this.#file, this.#control)
  }
}

/** In one step: it is read all the time. */
function tell (file: string, control: Control): void {
  writeFileSync(`${file}.next`, JSON.stringify(control))
  renameSync(`${file}.next`, file)
}
