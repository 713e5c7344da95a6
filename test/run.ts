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

async function main (request: Request): Promise<boolean> {
  process.chdir(ROOT)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (stopped) return
      stopped = true
      print(`${signal}: stopping`)
      end().finally(() => process.exit(128 + constants.signals[signal]))
    })
  }

  try {
    const files = longestFirst(request.files)
    const [env] = await Promise.all([startServers(files), compileTests(files)])
    // The first pattern matches the outermost test, which is named after its file.
    if (request.grep.length > 0) env.TAP_GREP = ['/^/', ...request.grep].join('\n')
    if (request.isComplete) checks = startChecks(print)
    const first = await runFiles(files, request, env)
    const results = request.retry ? await repeatFailed(first, request, env) : first
    if (stopped) return await new Promise<never>(() => {})
    return summarise(results, await checks?.failed ?? [], request)
  } finally {
    await end()
  }
}

/** Ends everything. Further calls wait for the first one. */
async function end (): Promise<void> {
  ending ??= (async () => {
    checks?.abort()
    await suite?.abort()
    await guardian?.end()
  })()
  await ending
}

/** Starts the servers; returns the environment of the test files. */
async function startServers (files: readonly string[]): Promise<NodeJS.ProcessEnv> {
  const wanted = new Set<ProgramName>(['postgres', 'redis'])
  for (const file of files) {
    for (const name of programsNamedIn(readFileSync(join(ROOT, file), 'utf8'))) wanted.add(name)
  }
  const programs = providePrograms([...wanted], print)
  guardian = startGuardian()
  const { folder } = guardian
  const temporary = join(folder, 'tmp')
  mkdirSync(temporary, { mode: 0o711 })
  const started = performance.now()
  const cluster = await createCluster(programs.postgres, folder)
  const [database, redis, storage] = await Promise.all([
    startPostgres(programs.postgres, await copyCluster(cluster, folder), guardian),
    startRedis(programs.redis, folder, guardian),
    wanted.has('swift') ? startObjectStorage(folder, guardian) : undefined
  ])
  const { prepareServers } = await import('./helpers/servers.ts')
  await prepareServers(database.url, redis.url)
  print(`started the servers in ${((performance.now() - started) / 1000).toFixed(1)} s`)
  return {
    ...process.env,
    TMPDIR: temporary,
    TEST_DATABASE_URL: database.url,
    // Tests start private servers on copies of this cluster.
    TEST_POSTGRES_CLUSTER: cluster,
    TEST_REDIS_URL: redis.url,
    ...storage && { TEST_S3_URL: storage.url }
  }
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
