import { existsSync, readdirSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'

export const ROOT = resolve(import.meta.dirname, '../..')

export const USAGE = `npm test -- [files or folders] [options]
npm run test:system -- [options]
npm run test:soak -- [files or folders] [options]

Without files npm test checks types and style and runs test/unit and test/integration; test:system runs
test/system; test:soak runs the long tests (*.soak.ts), one at a time, and prints their progress.

  --all           also the system tests, without files
  --grep=TEXT     only tests whose names match a text or /regular expression/; repeat it for nested tests
  --retry         if at most 5 files failed, run them once more, one at a time, name the tests that pass
                  then, and count them in test/flakes.md (unless CI is set)
  --record        write the duration of each file to test/durations.json, which orders the files

SOAK_SECONDS      duration of each open-ended part of the long tests (default 600)`

/** Wrong usage of the command line. `message` is one line. */
export class UsageError extends Error {}

export interface Request {
  /** Test files, relative to the project. */
  files: string[]
  grep: string[]
  /** Files at once. */
  jobs: number
  /** Time limit of one file. */
  timeoutSeconds: number
  /** Whether failed files run once more. */
  retry: boolean
  soak: boolean
  record: boolean
  /** Whether the run includes the type check and lint. */
  isComplete: boolean
}

/** The longest files take one or two minutes, and up to ten times as long on a busy machine. */
const TIMEOUT_SECONDS = 600
/** Up to four parts of SOAK_SECONDS in a file, and an hour for the rest. */
const SOAK_TIMEOUT_SECONDS = 3600 + 4 * (Number(process.env.SOAK_SECONDS) || 600)

/**
 * Reads the command line.
 *
 * @returns undefined when the user asks for help
 * @throws {UsageError}
 */
export function readArguments (args: string[]): Request | undefined {
  const { values, positionals } = parse(args)
  if (values.help === true) return undefined
  const { soak = false, system = false, all = false, grep = [] } = values
  const { retry = false, record = false } = values
  const ending = soak ? '.soak.ts' : '.test.ts'
  const usual = [
    ...soak || system ? [] : ['test/unit', 'test/integration'],
    ...soak || system || all ? ['test/system'] : []
  ]
  const paths = positionals.length > 0 ? positionals.map(existingPath) : usual.map((path) => join(ROOT, path))
  const files = paths.flatMap((path) => testFilesIn(path, ending))
  if (files.length === 0) throw new UsageError(`no test files (*${ending}) in ${positionals.join(', ')}`)
  return {
    files: [...new Set(files)].map((file) => relative(ROOT, file)).sort(),
    grep,
    jobs: soak ? 1 : Math.min(4, availableParallelism() + 2),
    timeoutSeconds: soak ? SOAK_TIMEOUT_SECONDS : TIMEOUT_SECONDS,
    retry,
    soak,
    record,
    isComplete: !soak && !system && positionals.length === 0 && grep.length === 0
  }
}

function parse (args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        grep: { type: 'string', short: 'g', multiple: true },
        retry: { type: 'boolean' },
        soak: { type: 'boolean' },
        system: { type: 'boolean' },
        all: { type: 'boolean' },
        record: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' }
      }
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

/** Resolves a path from the project's folder, or from the folder where the user typed the command. */
function existingPath (path: string): string {
  const found = [process.cwd(), process.env.INIT_CWD ?? process.cwd()]
    .map((folder) => resolve(folder, path))
    .find((candidate) => existsSync(candidate))
  if (found === undefined) throw new UsageError(`no such file or folder: ${path}`)
  return found
}

function testFilesIn (path: string, ending: string): string[] {
  if (statSync(path).isFile()) return [path]
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('node_modules'))
    .map((name) => join(path, name))
}
