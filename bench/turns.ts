import { performance } from 'node:perf_hooks'
import { ask, checkResponse, checkCounts, WrongResponseError, type Expected } from './responses.ts'
import type { Contender, Context } from './contender.ts'
import { addressText, lengthOf, withAddress } from './generators/load.ts'
import { runOpenLoop } from './generators/open-loop.ts'
import type { Counts, Generator, Load, Request } from './generators/types.ts'
import { coreSeconds, endedChildrenSeconds, usageOf, type Pinning } from './machine.ts'
import type { ContenderResult, TurnResult } from './results.ts'
import type { Server } from './servers.ts'

// One turn of one contender: check a response, apply the load, check the counts, record the numbers.

export interface TurnSettings {
  readonly context: Context
  readonly generator: Generator
  readonly pinning: Pinning | undefined
  readonly seconds: number
  readonly connections: number
  /** Turns of each contender in the run; long lists of requests are spread over them. */
  readonly turns: number
  /** For requests at fixed times: how many a second. */
  readonly rate?: number | undefined
}

export interface Runner {
  readonly contender: Contender
  readonly server: Server
  readonly load: Load
}

/**
 * Runs one turn of a contender.
 *
 * @throws {WrongResponseError}
 */
export async function runTurn (
  runner: Runner,
  turn: number,
  settings: TurnSettings
): Promise<TurnResult> {
  const { contender, server, load } = runner
  const { context, pinning, seconds, turns } = settings
  const isOnBothCores = contender.server.onBothCores === true
  // Each of two processes gets as many connections as one would; with fewer, both would idle at times.
  const connections = settings.connections * (isOnBothCores ? 2 : 1)
  const start = Math.floor(turn / turns * lengthOf(load))

  await contender.prepare?.(context, server, seconds)
  const { expected, wireBytes } = await checkOneResponse(runner, start, context)
  const { counts, before, after } = await applyLoad(runner, start, connections, settings)
  checkCounts(contender.name, counts, expected, wireBytes, connections, contender.otherResponses ?? 0)
  return resultOf(counts, before, after, pinning !== undefined && isOnBothCores)
}

/** Sends the first request of a turn and checks its response. */
async function checkOneResponse (
  { contender, server, load }: Runner,
  start: number,
  context: Context
): Promise<{ expected: Expected, wireBytes: number }> {
  const { name } = contender
  const index = load.order?.[start] ?? start % load.requests.length
  const expected = contender.expected(context, index)
  const request = withAddress(load.requests[index] as Request, addressText(start))
  const response = await ask(server.port, request).catch((error: Error) => {
    throw new WrongResponseError(`${name}: ${error.message}; the server printed: ${server.lastWords()}`)
  })
  checkResponse(name, response, expected)
  return { expected, wireBytes: response.wireBytes }
}

/** Runs the generator; returns its counts, and the usage of all processes before and after. */
async function applyLoad (
  { contender, server, load }: Runner,
  start: number,
  connections: number,
  { context, generator, pinning, seconds, rate }: TurnSettings
): Promise<{ counts: Counts, before: PartsUsage, after: PartsUsage }> {
  const cores = pinning === undefined ? undefined
    : contender.server.onBothCores === true ? pinning.both : [pinning.rest]
  const turn = { port: server.port, load, start, seconds, connections, cores }
  generator.prepare(contender.id, load)
  const from = nowMicroseconds()
  const before = readUsage(server, context, pinning)
  const counts = rate === undefined ? await generator.run(contender.id, turn)
    : await runOpenLoop(turn, rate, context.stores.guardian)
  const after = readUsage(server, context, pinning)
  server.turns.push([from, nowMicroseconds()])
  if (server.hasEnded()) {
    throw new WrongResponseError(`${contender.name}: the server ended during its turn: ${server.lastWords()}`)
  }
  return { counts, before, after }
}

function resultOf (
  counts: Counts,
  before: PartsUsage,
  after: PartsUsage,
  onBothCores: boolean
): TurnResult {
  const share = (part: Exclude<keyof PartsUsage, 'rssBytes'>): number | undefined => {
    const from = before[part]
    const to = after[part]
    return from === undefined || to === undefined ? undefined : (to - from) / counts.seconds
  }
  const [serverCpu, coreCpu] = [share('server'), share('core')]
  return {
    ...onBothCores && { onBothCores },
    rate: counts.requests / counts.seconds,
    p50Ms: counts.p50Ms,
    p99Ms: counts.p99Ms,
    maxMs: counts.maxMs,
    ...counts.p999Ms !== undefined && { p999Ms: counts.p999Ms },
    ...counts.lateMs !== undefined && { lateMs: counts.lateMs },
    requests: counts.requests,
    seconds: counts.seconds,
    serverCpu,
    foreignCpu: serverCpu === undefined || coreCpu === undefined || onBothCores
      ? undefined : Math.max(0, coreCpu - serverCpu),
    generatorCpu: share('generator'),
    postgresCpu: share('postgres'),
    redisCpu: share('redis'),
    rssBytes: after.rssBytes
  }
}

/** The turns of a contender without the warm-up, and its memory with it. */
export type Rounds = Pick<ContenderResult, 'rounds' | 'peakRssBytes'>

/** Runs all rounds, the first one as warm-up. `progress` is called after every turn. */
export async function runRounds (
  runners: readonly Runner[],
  rounds: number,
  settings: Omit<TurnSettings, 'turns' | 'rate'>,
  progress: (line: string) => void
): Promise<Rounds[]> {
  const results = runners.map((): TurnResult[] => [])
  const turnsOf = (round: number, { contender }: Runner): number =>
    round === 0 ? contender.warmUpTurns ?? 1 : 1
  const started = performance.now()
  const all = runners.reduce((sum, runner) => sum + turnsOf(0, runner) + rounds, 0)
  let done = 0
  for (let round = 0; round <= rounds; round++) {
    for (const [position, runner] of runners.entries()) {
      const { name, halfRateOf } = runner.contender
      const reference = runners.findIndex(({ contender }) => contender.id === halfRateOf)
      const result = await runTurn(runner, round, {
        ...settings,
        seconds: settings.seconds * turnsOf(round, runner),
        turns: rounds + 1,
        ...reference >= 0 && { rate: (results[reference]?.[0] as TurnResult).rate / 2 }
      })
      results[position]?.push(result)
      done += turnsOf(round, runner)
      const minutesLeft = (performance.now() - started) / done * (all - done) / 60_000
      const label = round === 0 ? 'warm-up' : `round ${round} of ${rounds}`
      progress(`${label}, ${name}: ${Math.round(result.rate).toLocaleString('en')} req/s, ${
        minutesLeft < 1 ? 'less than a minute' : `${Math.ceil(minutesLeft)} minutes`
      } left`)
    }
  }
  return results.map((turns) => ({
    rounds: turns.slice(1),
    peakRssBytes: turns.some(({ rssBytes }) => rssBytes === undefined) ? undefined
      : Math.max(...turns.map(({ rssBytes = 0 }) => rssBytes))
  }))
}

const nowMicroseconds = (): number => Number(process.hrtime.bigint() / 1000n)

/** Processor seconds so far of each part of the benchmark, and the memory of the server. */
type PartsUsage = ReturnType<typeof readUsage>

function readUsage (server: Server, { stores }: Context, pinning: Pinning | undefined) {
  const own = usageOf(server.pid)
  return {
    server: own?.cpuSeconds,
    core: pinning === undefined ? undefined : coreSeconds(pinning.server),
    rssBytes: own?.rssBytes,
    generator: endedChildrenSeconds(),
    postgres: usageOf(stores.postgresPid)?.cpuSeconds,
    redis: usageOf(stores.redisPid)?.cpuSeconds
  }
}
