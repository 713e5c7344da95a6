import { InvalidArgumentError } from 'commander'
import { ConfigError } from '../config.ts'

/** Runs a command other than `serve`, and sets the exit code of the process. */
export async function run (command: () => Promise<number>, failurePrefix = ''): Promise<void> {
  try {
    process.exitCode = await command()
  } catch (error) {
    printFailure(error, "These settings can't be used:", failurePrefix)
    process.exitCode = error instanceof InvalidArgumentError ? 2 : 1
  }
}

export function printFailure (error: unknown, settingsTitle: string, prefix: string): void {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr
    .write(error instanceof ConfigError ? `${settingsTitle}\n${message}\n` : `${prefix}${message}\n`)
}
