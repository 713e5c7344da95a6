import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { startGuardian, type Guardian } from './shared/guardian.ts'
import { copyCluster, createCluster, startObjectStorage, startPostgres,
  startRedis } from './shared/instances.ts'
import { MissingProgramError, programsNamedIn, providePrograms, type ProgramName } from './shared/programs.ts'
import { readArguments, ROOT, USAGE, UsageError, type Request } from './runner/arguments.ts'
import { startChecks, type Checks } from './runner/checks.ts'
import { compileTests } from './runner/compile.ts'
import { longestFirst, recordDurations } from './runner/durations.ts'
import { failedTests, recordFlakes } from './runner/flakes.ts'
import { formatResult, type FileResult } from './runner/results.ts'
import { runSuite, type Suite } from './runner/suite.ts'

// `npm test`, `npm run test:system` and `npm run test:soak`: starts private servers, runs the test files, and
// removes everything afterwards.

const SLOWEST = 10
/** If more files fail, they probably share a cause, and a second run would only bury its output. */
const MAX_REPEATED = 5

let guardian: Guardian | undefined
let suite: Suite | undefined
let checks: Checks | undefined
let ending: Promise<void> | undefined
let stopped = false

interface Given {
  database?: string | undefined
  redis?: string | undefined
}

async function main (request: Request): Promise<boolean> {
  process.chdir(ROOT)
  process.env.TEST_RUN_ID = randomBytes(4).toString('hex')
  const given: Given = {
    database: process.env.TEST_DATABASE_URL || undefined,
    redis: process.env.TEST_REDIS_URL || undefined
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (stopped) return
      stopped = true
      print(`${signal}: stopping`)
      end(given).finally(() => process.exit(128 + constants.signals[signal]))
    })
  }

  try {
    const files = longestFirst(request.files)
    const [env] = await Promise.all([startServers(given, files), compileTests(files)])
    // The first pattern matches the outermost test, which is named after its file.
    if (request.grep.length > 0) env.TAP_GREP = ['/^/', ...request.grep].join('\n')
    if (request.isComplete) checks = startChecks(print)
    const first = await runFiles(files, request, env)
    const results = request.retry ? await repeatFailed(first, request, env) : first
    if (stopped) return await new Promise<never>(() => {})
    return summarise(results, await checks?.failed ?? [], request)
  } finally {
    await end(given)
  }
}

/** Ends everything. Further calls wait for the first one. */
async function end (given: Given): Promise<void> {
  ending ??= (async () => {
    checks?.abort()
    await suite?.abort()
    if (given.database !== undefined || given.redis !== undefined) {
      const { sweepServers } = await import('./helpers/servers.ts')
      await sweepServers(given).catch((error: Error) =>
        print(`could not clean up the given servers: ${error.message}`)
      )
    }
    await guardian?.end()
  })()
  await ending
}

/** Starts the servers that are not given; returns the environment of the test files. */
async function startServers (given: Given, files: readonly string[]): Promise<NodeJS.ProcessEnv> {
  const wanted: ProgramName[] = [
    ...new Set(files.flatMap((file) => programsNamedIn(readFileSync(join(ROOT, file), 'utf8'))))
  ]
  if (given.database === undefined) wanted.push('postgres')
  if (given.redis === undefined) wanted.push('redis')
  const programs = providePrograms(wanted, print)
  guardian = startGuardian()
  const { folder } = guardian
  const temporary = join(folder, 'tmp')
  mkdirSync(temporary, { mode: 0o711 })
  const env: NodeJS.ProcessEnv = { ...process.env, TMPDIR: temporary }

  if (given.database === undefined) {
    const bin = programs.postgres
    const started = performance.now()
    // Tests, and runs inside of tests, start private servers on copies of this cluster.
    const cluster = process.env.TEST_POSTGRES_CLUSTER ?? await createCluster(bin, folder)
    const server = await startPostgres(bin, await copyCluster(cluster, folder), guardian)
    Object.assign(env, { TEST_DATABASE_URL: server.url, TEST_POSTGRES_CLUSTER: cluster })
    print(`started PostgreSQL (${bin}) on port ${server.port} in ${since(started)}`)
  } else {
    print('using the PostgreSQL of TEST_DATABASE_URL')
  }
  if (given.redis === undefined) {
    const started = performance.now()
    const server = await startRedis(programs.redis, folder, guardian)
    env.TEST_REDIS_URL = server.url
    print(`started Redis (${programs.redis}) on port ${server.port} in ${since(started)}`)
  } else {
    print('using the Redis of TEST_REDIS_URL')
  }
  if (wanted.includes('swift')) {
    const started = performance.now()
    const server = await startObjectStorage(folder, guardian)
    env.TEST_S3_URL = server.url
    print(`started OpenStack Swift on port ${server.port} in ${since(started)}`)
  }
  // Imported only now, because it reads TEST_RUN_ID.
  const { createTemplate } = await import('./helpers/servers.ts')
  await createTemplate(env.TEST_DATABASE_URL as string)
  return env
}

async function runFiles (
  files: readonly string[],
  request: Request,
  env: NodeJS.ProcessEnv
): Promise<FileResult[]> {
  const results: FileResult[] = []
  if (stopped) return results
  print(`running ${files.length} test ${files.length === 1 ? 'file' : 'files'}, ${request.jobs} at once`)
  suite = runSuite(files, {
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

/**
 * Runs the failed files once more, one at a time.
 *
 * @returns the results, with those of the second run in place of the first
 */
async function repeatFailed (
  results: readonly FileResult[],
  request: Request,
  env: NodeJS.ProcessEnv
): Promise<readonly FileResult[]> {
  const failed = results.filter(hasFailed)
  const files = failed.map(({ file }) => file)
  // Some failures have no test file, such as a process that did not end.
  if (failed.length === 0 || failed.length > MAX_REPEATED || !files.every(isFile)) return results
  print('once more, because they failed:')
  const second = await runFiles(files, { ...request, jobs: 1 }, env)
  const passed = new Set(second.filter((result) => !hasFailed(result)).map(({ file }) => file))
  passedSecondTime = failedTests(failed.filter(({ file }) => passed.has(file)))
  if (!process.env.CI) recordFlakes(passedSecondTime)
  return [...results.filter((result) => !hasFailed(result)), ...second]
}

/** Prints the summary and records durations; returns whether the run passed. */
function summarise (
  results: readonly FileResult[],
  failedChecks: readonly string[],
  request: Request
): boolean {
  const total = (count: (result: FileResult) => number) =>
    results.reduce((sum, result) => sum + count(result), 0)
  const passed = total((result) => result.passed)
  const failed = total((result) => result.failures.length)
  const skipped = total((result) => result.skipped)
  if (request.record) recordDurations(results)
  if (results.length > SLOWEST) {
    const slowest = [...results].sort((one, other) => other.milliseconds - one.milliseconds)
    print('slowest:')
    for (const { file, milliseconds } of slowest.slice(0, SLOWEST)) {
      print(`${(milliseconds / 1000).toFixed(1).padStart(7)} s  ${file}`)
    }
  }
  const failedNames = [...failedChecks, ...results.filter(hasFailed).map(({ file }) => file)]
  for (const test of passedSecondTime) print(`passed only the second time: ${test}`)
  if (failedNames.length > 0) print(`failed: ${failedNames.join(' ')}`)
  if (passed + failed === 0) print('no test was run')
  lastLine = [
    `${passed} passed, ${failed} failed`,
    ...passedSecondTime.length > 0 ? [`${passedSecondTime.length} passed only the second time`] : [],
    ...skipped > 0 ? [`${skipped} skipped`] : []
  ].join(', ')
  return failedNames.length === 0 && passed > 0
}

let lastLine: string | undefined
/** Tests that failed, and whose files passed when they ran alone. */
let passedSecondTime: readonly string[] = []

const hasFailed = ({ failures }: FileResult): boolean => failures.length > 0

const isFile = (name: string): boolean => existsSync(join(ROOT, name))

function since (started: number): string {
  return `${((performance.now() - started) / 1000).toFixed(1)} s`
}

function print (line: string): void {
  process.stdout.write(`${line}\n`)
}

try {
  const request = readArguments(process.argv.slice(2))
  if (request === undefined) print(USAGE)
  else process.exitCode = await main(request) ? 0 : 1
  if (lastLine !== undefined) print(lastLine)
} catch (error) {
  // An error after a signal is a consequence of stopping; the signal handler ends the process.
  if (stopped) await new Promise(() => {})
  const isExpected = error instanceof UsageError || error instanceof MissingProgramError
  console.error(isExpected ? error.message : error)
  process.exitCode = 1
}
