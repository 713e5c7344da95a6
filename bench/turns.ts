import { performance } from 'node:perf_hooks'
import { ask, checkAnswer, checkCounts, WrongAnswerError } from './answers.ts'
import type { Contender, Context } from './contender.ts'
import type { Generator, Load } from './generators/generator.ts'
import { coreSeconds, endedChildrenSeconds, usageOf, type Pinning } from './machine.ts'
import type { TurnResult } from './results.ts'
import type { Server } from './servers.ts'

// One turn of one contender: look at an answer, make the load, compare what was counted, keep the numbers.

export interface TurnSettings {
  readonly context: Context
  readonly generator: Generator
  readonly pinning: Pinning | undefined
  readonly seconds: number
  readonly connections: number
  /** Turns that each contender has in the run: long lists of requests are spread over them. */
  readonly turns: number
}

export interface Runner {
  readonly contender: Contender
  readonly server: Server
  readonly load: Load
}

/** @throws {WrongAnswerError} */
export async function runTurn ({ contender, server, load }: Runner, turn: number, settings: TurnSettings): Promise<TurnResult> {
  const { context, generator, pinning, seconds, turns } = settings
  // Each of two processes gets as many as one does, or both would wait for the generator now and then.
  const connections = settings.connections * (contender.server.onBothCores === true ? 2 : 1)
  const { name } = contender
  const length = load.order?.length ?? load.requests.length
  const start = Math.floor(turn / turns * length)
  const index = load.order?.[start] ?? start
  const request = load.requests[index] as Load['requests'][number]
  const expected = contender.expected(context, index)

  await contender.prepare?.(context, server, seconds)
  const answer = await ask(server.port, request).catch((error: Error) => {
    throw new WrongAnswerError(`${name}: ${error.message}; the server printed: ${server.lastWords()}`)
  })
  checkAnswer(name, answer, expected)
  generator.prepare(contender.id, load)

  const from = nowMicroseconds()
  const before = readUsage(server, context, pinning)
  const counts = await generator.run(contender.id, {
    port: server.port,
    load,
    start,
    seconds,
    connections,
    cores: pinning === undefined ? undefined : contender.server.onBothCores === true ? pinning.both : [pinning.rest]
  })
  const after = readUsage(server, context, pinning)
  server.turns.push([from, nowMicroseconds()])
  if (server.hasEnded()) throw new WrongAnswerError(`${name}: the server ended during its turn: ${server.lastWords()}`)
  checkCounts(name, counts, expected, answer.wireBytes, connections, contender.otherAnswers ?? 0)

  const share = (part: 'server' | 'core' | 'generator' | 'postgres' | 'redis'): number | undefined => {
    const from = before[part]
    const to = after[part]
    return from === undefined || to === undefined ? undefined : (to - from) / counts.seconds
  }
  const [serverCpu, coreCpu] = [share('server'), share('core')]
  return {
    ...pinning !== undefined && contender.server.onBothCores === true && { onBothCores: true },
    rate: counts.requests / counts.seconds,
    p50Ms: counts.p50Ms,
    p99Ms: counts.p99Ms,
    requests: counts.requests,
    seconds: counts.seconds,
    serverCpu,
    foreignCpu: serverCpu === undefined || coreCpu === undefined || contender.server.onBothCores === true ? undefined : Math.max(0, coreCpu - serverCpu),
    generatorCpu: share('generator'),
    postgresCpu: share('postgres'),
    redisCpu: share('redis'),
    rssBytes: after.rssBytes
  }
}

/** All rounds, the first of them to warm up. `progress` is told of every turn. */
export async function runRounds (runners: readonly Runner[], rounds: number, settings: Omit<TurnSettings, 'turns'>, progress: (line: string) => void): Promise<TurnResult[][]> {
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
      progress(`${label}, ${runner.contender.name}: ${Math.round(result.rate).toLocaleString('en')} req/s, ${minutesLeft < 1 ? 'less than a minute' : `${Math.ceil(minutesLeft)} minutes`} left`)
    }
  }
  return results
}

const nowMicroseconds = (): number => Number(process.hrtime.bigint() / 1000n)

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
