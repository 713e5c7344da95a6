import { performance } from 'node:perf_hooks'
import { ask, checkAnswer, checkCounts, WrongAnswerError, type Expected } from './answers.ts'
import type { Contender, Context } from './contender.ts'
import type { Counts, Generator, Load, Request } from './generators/types.ts'
import { coreSeconds, endedChildrenSeconds, usageOf, type Pinning } from './machine.ts'
import type { TurnResult } from './results.ts'
import type { Server } from './servers.ts'

// One turn of one contender: check an answer, apply the load, check the counts, record the numbers.

export interface TurnSettings {
  readonly context: Context
  readonly generator: Generator
  readonly pinning: Pinning | undefined
  readonly seconds: number
  readonly connections: number
  /** Turns of each contender in the run; long lists of requests are spread over them. */
  readonly turns: number
}

export interface Runner {
  readonly contender: Contender
  readonly server: Server
  readonly load: Load
}

/**
 * Runs one turn of a contender.
 *
 * @throws {WrongAnswerError}
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
  const start = Math.floor(turn / turns * (load.order?.length ?? load.requests.length))

  await contender.prepare?.(context, server, seconds)
  const { expected, wireBytes } = await checkOneAnswer(runner, load.order?.[start] ?? start, context)
  const { counts, before, after } = await applyLoad(runner, start, connections, settings)
  checkCounts(contender.name, counts, expected, wireBytes, connections, contender.otherAnswers ?? 0)
  return resultOf(counts, before, after, pinning !== undefined && isOnBothCores)
}

/** Sends the request at an index of the load and checks its answer. */
async function checkOneAnswer (
  { contender, server, load }: Runner,
  index: number,
  context: Context
): Promise<{ expected: Expected, wireBytes: number }> {
  const { name } = contender
  const expected = contender.expected(context, index)
  const answer = await ask(server.port, load.requests[index] as Request).catch((error: Error) => {
    throw new WrongAnswerError(`${name}: ${error.message}; the server printed: ${server.lastWords()}`)
  })
  checkAnswer(name, answer, expected)
  return { expected, wireBytes: answer.wireBytes }
}

/** Runs the generator; returns its counts, and the usage of all processes before and after. */
async function applyLoad (
  { contender, server, load }: Runner,
  start: number,
  connections: number,
  { context, generator, pinning, seconds }: TurnSettings
): Promise<{ counts: Counts, before: PartsUsage, after: PartsUsage }> {
  generator.prepare(contender.id, load)
  const from = nowMicroseconds()
  const before = readUsage(server, context, pinning)
  const counts = await generator.run(contender.id, {
    port: server.port,
    load,
    start,
    seconds,
    connections,
    cores: pinning === undefined ? undefined
      : contender.server.onBothCores === true ? pinning.both : [pinning.rest]
  })
  const after = readUsage(server, context, pinning)
  server.turns.push([from, nowMicroseconds()])
  if (server.hasEnded()) {
    throw new WrongAnswerError(`${contender.name}: the server ended during its turn: ${server.lastWords()}`)
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

/** Runs all rounds, the first one as warm-up. `progress` is called after every turn. */
export async function runRounds (
  runners: readonly Runner[],
  rounds: number,
  settings: Omit<TurnSettings, 'turns'>,
  progress: (line: string) => void
): Promise<TurnResult[][]> {
  const results = runners.map((): TurnResult[] => [])
  const started = performance.now()
  const all = (rounds + 1) * runners.length
  let done = 0
  for (let round = 0; round <= rounds; round++) {
    for (const [position, runner] of runners.entries()) {
      const result = await runTurn(runner, round, { ...settings, turns: rounds + 1 })
      if (round > 0) results[position]?.push(result)
      const minutesLeft = (performance.now() - started) / ++done * (all - done) / 60_000
      const label = round === 0 ? 'warm-up' : `round ${round} of ${rounds}`
      progress(`${label}, ${runner.contender.name}: ${Math.round(result.rate).toLocaleString('en')} req/s, ${
        minutesLeft < 1 ? 'less than a minute' : `${Math.ceil(minutesLeft)} minutes`
      } left`)
    }
  }
  return results
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
