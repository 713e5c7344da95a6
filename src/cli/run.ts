import { InvalidArgumentError } from 'commander'
import { ConfigError } from '../config.ts'

/** What a command returns: its exit code, or nothing after a success. */
export type ExitCode = number | void

/** Runs a command other than `serve`, and sets the exit code of the process. */
export async function run (command: () => Promise<ExitCode>, failurePrefix = ''): Promise<void> {
  try {
    process.exitCode = await command() ?? 0
  } catch (error) {
    printFailure(error, "These settings can't be used:", failurePrefix)
    process.exitCode = error instanceof InvalidArgumentError ? 2 : 1
  }
}

/** Imports a module with functions that run commands. */
export type LoadCommands<Name extends string> = () => Promise<
  Record<Name, (...args: any[]) => Promise<ExitCode>>
>

/**
 * Returns an action that runs a function of a module with the arguments and the options of the command. The
 * module is loaded only then.
 */
export function runFrom<Name extends string> (
  load: LoadCommands<Name>,
  name: Name,
  failurePrefix?: string
): (...args: unknown[]) => Promise<void> {
  return async (...args) => await run(async () => await (await load())[name](...args), failurePrefix)
}

export function printFailure (error: unknown, settingsTitle: string, prefix: string): void {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr
    .write(error instanceof ConfigError ? `${settingsTitle}\n${message}\n` : `${prefix}${message}\n`)
}
