import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { startGuardian } from '../test/shared/guardian.ts'
import { startRedis } from '../test/shared/instances.ts'
import { MissingProgramError, providePrograms } from '../test/shared/programs.ts'
import { UsageError } from './options.ts'
import { ABUSIVE, CHANGING, CLIENTS, measureReplicas, total, type Row,
  type Window } from './replica-measurements.ts'
import { ABUSE } from './replica-schedule.ts'

// `npm run bench:replicas`: many replicas share limits through one Redis. Windows last a few seconds of real
// time, because Redis counts them with its own clock. Only heartbeats are as in production; process clocks
// are set forward for them between windows, so that replicas have shares without a minute of waiting.

const USAGE = `npm run bench:replicas -- [options]
  --replicas=N,N   numbers of replicas (1,4,10,50)
  --limits=N,N     reads that a client is allowed in a window, 30 or 1000 (30,1000)
Simulates replicas on a private Redis, in four to six minutes. It fails if a client got more reads than its
limit, a client that stayed below its limit was refused, or a graceful restart cost a client reads.`

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}
/** Progress goes to standard error, so that the tables can be redirected. */
const progress = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

/** @returns whether every client got what it should get, or help was asked for */
async function main (): Promise<boolean> {
  const options = readOptions()
  if (options === undefined) {
    print(USAGE)
    return true
  }
  const { redis: program } = providePrograms(['redis'], progress)
  const guardian = startGuardian()
  const { url } = await startRedis(program, guardian.folder, guardian)
  const redis = new Redis(url)
  try {
    const rows: Row[] = []
    const idles: string[] = []
    for (const count of options.replicas) {
      const measured = await measureReplicas({ redis, url, guardian, progress }, count, options.limits)
      rows.push(...measured.rows)
      idles.push(`${count}: ${(measured.idle * 100).toFixed(1)} %`)
    }
    rows.sort((one, other) => one.max - other.max) // by limit first, then in the order of the measurements
    report(rows)
    print(`\nHeartbeats and probes of so many replicas, in per cent of a core, are not included: ${
      idles.join(', ')
    }.`)
    return rows.every(({ windows, changing }) => {
      const { admitted, wronglyRefused } = total(windows)
      const isTooLittle = changing === 'restart' && Math.min(1, ...admitted) < 1
      return Math.max(0, ...admitted) <= 1 && wronglyRefused === 0 && !isTooLittle
    })
  } finally {
    redis.disconnect()
    await guardian.end()
  }
}

/** @throws {UsageError} */
function readOptions (): { replicas: number[], limits: number[] } | undefined {
  const text = { type: 'string' } as const
  let values
  try {
    values = parseArgs({ options: { replicas: text, limits: text, help: { type: 'boolean', short: 'h' } } })
      .values
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
  if (values.help === true) return undefined
  const numbers = (name: 'replicas' | 'limits', initial: string): number[] => {
    const value = values[name] ?? initial
    if (!/^[1-9]\d{0,3}(,[1-9]\d{0,3})*$/.test(value)) {
      throw new UsageError(`--${name} takes whole numbers from 1`)
    }
    return value.split(',').map(Number)
  }
  const limits = numbers('limits', Object.keys(CLIENTS).join(','))
  if (limits.some((max) => CLIENTS[max] === undefined)) {
    throw new UsageError(`--limits takes ${Object.keys(CLIENTS).join(' or ')}`)
  }
  return { replicas: numbers('replicas', '1,4,10,50'), limits }
}

function report (rows: readonly Row[]): void {
  const shares = ABUSIVE.map((share) => `${share * 100} %`).join(' · ')
  print(`Abusive clients send ${ABUSE} times their limit, others 1 to 5 reads.`)
  print(`In cells with "·": ${shares} abusive.\n`)
  printHead()
  for (const row of rows) if (row.changing === undefined) print(lineOf(row))
  reportChanging(rows.filter(({ changing }) => changing === 'crash'), 'crash')
  reportChanging(rows.filter(({ changing }) => changing === 'restart'), 'shut down gracefully')
}

function reportChanging (rows: readonly Row[], what: string): void {
  if (rows.length === 0) return
  print(`\nThe same with ${ABUSIVE.at(-1)! * 100} % abusive clients, while ${
    CHANGING * 100
  } % of the replicas ${what} in each window and as many join:\n`)
  printHead()
  for (const row of rows) print(lineOf(row))
}

function printHead (): void {
  const head = [
    'limit',
    'replicas',
    'share',
    'routing',
    'admitted/limit',
    'wrongly refused',
    'commands a read',
    'Redis, µs a read'
  ]
  print(`| ${head.join(' | ')} |`)
  print('|--:|--:|--:|---|--:|--:|--:|--:|')
}

function lineOf ({ max, replicas, share, affinity, windows }: Row): string {
  const { admitted, wronglyRefused } = total(windows)
  const each = (value: (window: Window) => number): string =>
    windows.map((window) => value(window).toFixed(2)).join(' · ')
  const cells = [
    max,
    replicas,
    share,
    replicas === 1 ? '–' : affinity ? 'one replica' : 'random',
    `${Math.min(...admitted).toFixed(2)} to ${Math.max(...admitted).toFixed(2)}`,
    wronglyRefused,
    each(({ scriptCalls, reads }) => scriptCalls / reads),
    each(({ microseconds, reads }) => microseconds / reads)
  ]
  return `| ${cells.join(' | ')} |`
}

try {
  if (!await main()) process.exitCode = 1
} catch (error) {
  const known = error instanceof UsageError || error instanceof MissingProgramError
  console.error(known ? (error as Error).message : error)
  process.exitCode = 1
}
