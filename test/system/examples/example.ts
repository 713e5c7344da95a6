import { cpSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { commandsOf } from '../docs/walk-through.ts'
import { runInProject } from '../client/installed-client.ts'
import type { Teardown } from '../../helpers/servers.ts'
import { launch, PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Installs and starts the examples as their READMEs say.

type Process = ReturnType<typeof launch>

/** An example in a folder of its own, with its dependencies. */
export class Example {
  readonly folder: string
  readonly #t: Teardown
  readonly #readme: string

  private constructor (t: Teardown, folder: string) {
    this.#t = t
    this.folder = folder
    this.#readme = readFileSync(join(folder, 'README.md'), 'utf8')
  }

  /** Copies an example, because what it needs from the rest of the repository should be an error. */
  static async install (t: Teardown, name: string): Promise<Example> {
    const copy = temporaryFolder(t)
    const folder = join(copy, 'examples', name)
    cpSync(join(PROJECT, 'examples', name), folder, { recursive: true })
    symlinkSync(join(PROJECT, 'packages'), join(copy, 'packages'))
    await runInProject(folder, 'npm ci')
    return new Example(t, folder)
  }

  /** Returns the commands of the section "Start", one text per code block. */
  get commands (): string[] {
    return commandsOf(this.#readme, 'Start')
  }

  /**
   * Starts the example.
   *
   * @param ready what it prints when it can be used
   */
  async start (
    command: readonly [string, ...string[]],
    env: Record<string, string>,
    ready: RegExp
  ): Promise<Process> {
    const started = launch(this.#t, env, command, true, this.folder)
    const { child, output } = started
    await until(() => {
      if (child.exitCode !== null) throw new Error(`the example ended with ${child.exitCode}:\n${output()}`)
      return ready.test(output())
    }, String(ready))
    return started
  }
}
