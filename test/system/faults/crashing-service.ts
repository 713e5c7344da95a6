import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import type { Teardown } from '../../helpers/servers.ts'

// Runs the built service as a process that can be killed (SIGKILL) at a chosen step of a request.

export interface StopPoint {
  /**
   * Matches the steps to count: `open NAME`, `write`, `sync`, `close`, `rename NAME`, `unlink NAME` of
   * files, and what requests send: `query SQL` to PostgreSQL, `redis command` to Redis.
   */
  readonly steps: RegExp
  /** Number of the step to stop at, from 1. */
  readonly nth: number
  /**
   * `before` the step, or `after` it has succeeded, before its caller continues. `during` kills the process
   * right after the step was passed to the disk or the connection.
   */
  readonly when: 'before' | 'during' | 'after'
  /** Whether steps count that the service makes by itself, not for a request. */
  readonly withOwn?: boolean
}

export interface Stop {
  readonly step: string
  readonly when: StopPoint['when']
  /** The refresh tokens (32 random bytes in base64url) made for the client's connection, newest last. */
  readonly secrets: readonly string[]
}

interface Control {
  /** Numbered, so that the count of steps begins anew with each plan. */
  stop: { number: number, steps: string } & Omit<StopPoint, 'steps'> | undefined
  aheadMs: number
}

const COMMAND = [
  process.execPath,
  '--import=./test/system/faults/crash-points.js',
  'dist/cli/landfall.js',
  'serve'
] as const

/** A service that can be killed and started again on the same port. */
export class CrashingService {
  readonly url: string
  readonly #t: Teardown
  readonly #env: Record<string, string>
  readonly #file: string
  readonly #control: Control
  #service: Service
  #plans = 0

  private constructor (
    t: Teardown,
    env: Record<string, string>,
    file: string,
    control: Control,
    service: Service
  ) {
    this.#t = t
    this.#env = { ...env, PORT: new URL(service.url).port }
    this.#file = file
    this.#control = control
    this.#service = service
    this.url = service.url
  }

  static async start (t: Teardown, env: Record<string, string>): Promise<CrashingService> {
    const file = join(temporaryFolder(t), 'control')
    const control: Control = { stop: undefined, aheadMs: 0 }
    tell(file, control)
    const withFile = { ...env, TEST_CONTROL: file }
    return new CrashingService(t, withFile, file, control, await startService(t, withFile, COMMAND))
  }

  /**
   * Begins an action and stops the process at a step of it. Other actions may run until the process is
   * killed.
   *
   * @returns undefined if the action ended without this step
   */
  async stopAt ({ steps, ...point }: StopPoint, action: () => Promise<unknown>): Promise<Stop | undefined> {
    const { when } = point
    this.#control.stop = { number: ++this.#plans, steps: steps.source, ...point }
    tell(this.#file, this.#control)
    const note = `${this.#file}.stopped`
    const outcome: { answered?: true, error?: unknown } = {}
    action().then(() => {
      outcome.answered = true
    }, (error: unknown) => {
      outcome.error = error
    })
    while (Object.keys(outcome).length === 0 && !existsSync(note)) await sleep(5)
    this.#control.stop = undefined
    tell(this.#file, this.#control)
    if (existsSync(note)) {
      const { step, secrets } = JSON.parse(readFileSync(note, 'utf8')) as Stop
      rmSync(note)
      return { step, when, secrets }
    }
    if (outcome.answered === true) return undefined
    throw new Error(`the action failed before its step:\n${this.#service.output()}`, { cause: outcome.error })
  }

  /** Kills the process (SIGKILL). */
  async kill (): Promise<void> {
    await this.#service.end('SIGKILL')
  }

  /** Starts the process again after `kill`. */
  async restart (): Promise<void> {
    this.#service = await startService(this.#t, this.#env, COMMAND)
  }

  /** Sets the clocks of the process ahead. */
  advance (ms: number): void {
    this.#control.aheadMs += ms
    tell(this.#file, this.#control)
  }
}

/** Writes atomically, because the process may read the file at any time. */
function tell (file: string, control: Control): void {
  writeFileSync(`${file}.next`, JSON.stringify(control))
  renameSync(`${file}.next`, file)
}
