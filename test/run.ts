import { existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { constants, availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startGuardian, type Guardian } from './helpers/guardian.ts'
import { createCluster, copyCluster, startObjectStorage, startPostgres, startRedis } from './helpers/instances.ts'
import { MissingProgramError, programsNamedIn, providePrograms, type ProgramName } from './helpers/programs.ts'
import { formatResult, type FileResult } from './helpers/results.ts'
import { runSuite, type Suite } from './helpers/suite.ts'

// `npm test` and `npm run test:soak`: starts a private PostgreSQL and Redis, runs the test files, leaves nothing behind.

const USAGE = `npm test -- [files or folders] [options]
  --grep=TEXT     only tests whose name matches (a text or a /regular expression/), and what is in them
  --jobs=N        test files at once (one more than there are cores, 4 at most: they wait a lot)
  --timeout=N     longest time for one file, in seconds (300)
  --bail          start no more files after the first failure
  --soak          the long ones (*.soak.ts) instead, one at a time, with what they say as they go (npm run test:soak)
SOAK_SECONDS: how long each part of the long ones lasts that could go on for ever (600).
TEST_DATABASE_URL, TEST_REDIS_URL: servers to use instead of starting some; databases are created and dropped there.`

const ROOT = resolve(import.meta.dirname, '..')
/** Against what hangs, with room for a machine that has other things to do: the longest files take two minutes on two cores. */
const TIMEOUT_SECONDS = 300
/** Begun first, or it would go on when all the others are done. */
const LONGEST = 'test/process/server.test.ts'
/** Enough for several parts of SOAK_SECONDS each and for an hour of what has an end by itself. */
const SOAK_TIMEOUT_SECONDS = 3600 + 4 * (Number(process.env.SOAK_SECONDS) || 600)

/** The command was called in a way that can't work; `message` is one line. */
class UsageError extends Error {}

interface Request {
  files: string[]
  grep: string[]
  jobs: number
  timeoutSeconds: number
  bail: boolean
  soak: boolean
}

let guardian: Guardian | undefined
let suite: Suite | undefined
let ending: Promise<void> | undefined
let stopped = false

/** Ends everything once, however often it is asked to. */
async function end (urls: { database?: string, redis?: string }): Promise<void> {
  ending ??= (async () => {
    await suite?.abort()
    if (urls.database !== undefined || urls.redis !== undefined) {
      const { sweepServers } = await import('./helpers/servers.ts')
      await sweepServers(urls).catch((error: Error) => print(`could not tidy up the given servers: ${error.message}`))
    }
    await guardian?.end()
  })()
  await ending
}

async function main (): Promise<number> {
  const request = readArguments(process.argv.slice(2))
  process.chdir(ROOT)
  process.env.TEST_RUN_ID = randomBytes(4).toString('hex')
  const given = { database: process.env.TEST_DATABASE_URL || undefined, redis: process.env.TEST_REDIS_URL || undefined }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (stopped) return
      stopped = true
      print(`${signal}: stopping`)
      end(given).finally(() => process.exit(128 + constants.signals[signal]))
    })
  }

  try {
    const env = await startServers(given, request.files)
    if (request.grep.length > 0) env.TAP_GREP = request.grep.join('\n')
    const results = await runFiles(request, env)
    return stopped ? await new Promise<never>(() => {}) : summarise(results)
  } finally {
    await end(given)
  }
}

function readArguments (args: string[]): Request {
  const { values, positionals } = parse(args)
  if (values.help) {
    print(USAGE)
    process.exit(0)
  }
  const number = (name: 'jobs' | 'timeout', initial: number): number => {
    const value = values[name]
    if (value !== undefined && !/^[1-9]\d{0,5}$/.test(value)) throw new UsageError(`--${name} takes a whole number from 1`)
    return value === undefined ? initial : Number(value)
  }
  // npm starts it in the project's folder, where the names were meant; then they are looked for where the user stood.
  const folders = [process.cwd(), process.env.INIT_CWD ?? process.cwd()]
  const paths = positionals.map((path) => {
    const found = folders.map((folder) => resolve(folder, path)).find(existsSync)
    if (found === undefined) throw new UsageError(`no such file or folder: ${path}`)
    return found
  })
  const soak = values.soak ?? false
  const ending = soak ? '.soak.ts' : '.test.ts'
  const files = (paths.length > 0 ? paths : [join(ROOT, 'test')]).flatMap((path) => testFilesIn(path, ending))
  if (files.length === 0) throw new UsageError(`no test files (*${ending}) in ${positionals.join(', ') || 'test'}`)
  return {
    files: [...new Set(files)].map((file) => relative(ROOT, file)).sort((one, other) => Number(other === LONGEST) - Number(one === LONGEST) || (one < other ? -1 : 1)),
    grep: values.grep ?? [],
    jobs: number('jobs', soak ? 1 : Math.min(4, availableParallelism() + 1)),
    timeoutSeconds: number('timeout', soak ? SOAK_TIMEOUT_SECONDS : TIMEOUT_SECONDS),
    bail: values.bail ?? false,
    soak
  }
}

function parse (args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        grep: { type: 'string', short: 'g', multiple: true },
        jobs: { type: 'string', short: 'j' },
        timeout: { type: 'string' },
        bail: { type: 'boolean' },
        soak: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' }
      }
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function testFilesIn (path: string, ending: string): string[] {
  if (statSync(path).isFile()) return [path]
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('node_modules'))
    .map((name) => join(path, name))
}

/** Starts what was not given; returns the environment of the test files. */
async function startServers (given: { database?: string | undefined, redis?: string | undefined }, files: readonly string[]): Promise<NodeJS.ProcessEnv> {
  const wanted: ProgramName[] = [...new Set(files.flatMap((file) => programsNamedIn(readFileSync(join(ROOT, file), 'utf8'))))]
  if (given.database === undefined) wanted.push('postgres')
  if (given.redis === undefined) wanted.push('redis')
  const programs = providePrograms(wanted, print)
  guardian = startGuardian()
  const temporary = join(guardian.folder, 'tmp')
  mkdirSync(temporary, { mode: 0o711 })
  const env: NodeJS.ProcessEnv = { ...process.env, TMPDIR: temporary }

  if (given.database === undefined) {
    const bin = programs.postgres as string
    const started = performance.now()
    // The copy is what tests get their own servers from.
    const template = await createCluster(bin, guardian.folder)
    const server = await startPostgres(bin, await copyCluster(template, guardian.folder), guardian)
    Object.assign(env, { TEST_DATABASE_URL: server.url, TEST_POSTGRES_CLUSTER: template })
    print(`started PostgreSQL (${bin}) on port ${server.port} in ${since(started)}`)
  } else {
    print('using the PostgreSQL of TEST_DATABASE_URL')
  }
  if (given.redis === undefined) {
    const started = performance.now()
    const server = await startRedis(programs.redis as string, guardian.folder, guardian)
    env.TEST_REDIS_URL = server.url
    print(`started Redis (${programs.redis}) on port ${server.port} in ${since(started)}`)
  } else {
    print('using the Redis of TEST_REDIS_URL')
  }
  if (wanted.includes('swift')) {
    const started = performance.now()
    const server = await startObjectStorage(guardian.folder, guardian)
    env.TEST_S3_URL = server.url
    print(`started OpenStack Swift on port ${server.port} in ${since(started)}`)
  }
  return env
}

async function runFiles (request: Request, env: NodeJS.ProcessEnv): Promise<FileResult[]> {
  const results: FileResult[] = []
  if (stopped) return results
  print(`running ${request.files.length} test ${request.files.length === 1 ? 'file' : 'files'}, ${request.jobs} at once`)
  suite = runSuite(request.files, {
    ...request,
    env,
    guardian: guardian as Guardian,
    temporaryFolder: env.TMPDIR as string,
    follow: request.soak,
    progress: print,
    report (result) {
      if (stopped) return
      results.push(result)
      print(formatResult(result))
    }
  })
  await suite.finished
  return results
}

function summarise (results: readonly FileResult[]): number {
  const passed = results.reduce((sum, result) => sum + result.passed, 0)
  const failed = results.reduce((sum, result) => sum + result.failures.length, 0)
  const skipped = results.reduce((sum, result) => sum + result.skipped, 0)
  const failedFiles = results.filter((result) => result.failures.length > 0).map((result) => result.file)
  if (failedFiles.length > 0) print(`failed: ${failedFiles.join(' ')}`)
  if (passed + failed === 0) print('no test was run')
  lastLine = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
  return failed === 0 && passed > 0 ? 0 : 1
}

let lastLine: string | undefined

function since (started: number): string {
  return `${((performance.now() - started) / 1000).toFixed(1)} s`
}

function print (line: string): void {
  process.stdout.write(`${line}\n`)
}

try {
  process.exitCode = await main()
  if (lastLine !== undefined) print(lastLine)
} catch (error) {
  // What fails because it is being stopped is no news; the handler of the signal ends the process.
  if (stopped) await new Promise(() => {})
  const known = error instanceof UsageError || error instanceof MissingProgramError
  console.error(known ? error.message : error)
  process.exitCode = 1
}
