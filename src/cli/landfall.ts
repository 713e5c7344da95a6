#!/usr/bin/env node
import '../fast-ticks.ts'
import { ConfigError } from '../config.ts'
import { parseCommandLine, UsageError } from './command-line.ts'
import { COMMANDS, type Command } from './commands.ts'
import { commandHelp, overview, version } from './help.ts'
import { outliveReaders } from './output.ts'

// The command line: what is to be run, and how it ended. 0 is done, 1 is failed, 2 is a command that is none.

/** @returns the exit code; undefined while a service runs that ends the process by itself */
async function main (args: readonly string[]): Promise<number | undefined> {
  const request = parseCommandLine(args, COMMANDS)
  if (request.kind === 'version') {
    process.stdout.write(`${version()}\n`)
    return 0
  }
  if (request.kind === 'help') {
    process.stdout.write(request.commands.length === 1 ? commandHelp(request.commands[0] as Command) : overview(request.commands))
    return 0
  }
  const { command, input } = request
  if (command.name !== 'serve') outliveReaders()
  try {
    return await (await command.load())(input)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const { settings, failed } = command.failure ?? { settings: "These settings can't be used:", failed: '' }
    process.stderr.write(error instanceof ConfigError ? `${settings}\n${message}\n` : `${failed}${message}\n`)
    // A service that could not start may have left something open.
    if (command.name === 'serve') process.exit(1)
    return 1
  }
}

main(process.argv.slice(2)).then((code) => { if (code !== undefined) process.exitCode = code }, (error: unknown) => {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 2
})
