#!/usr/bin/env node
import '../infra/system/v8-tuning.ts'
import { CommanderError } from 'commander'
import { handleOutputErrors } from './output.ts'
import { createProgram } from './program.ts'

// The entry point of the command line. Exit codes: 0 success, 1 failure, 2 wrong usage.

handleOutputErrors()
createProgram().parseAsync().catch((error: unknown) => {
  if (!(error instanceof CommanderError)) throw error
  // Commander has already printed the help or the error. Its own exit code for an error would be 1.
  process.exitCode = error.exitCode === 0 ? 0 : 2
})
