import type { Target } from './contender.ts'
import type { BenchResult, ContenderResult, TurnResult } from './results.ts'
import { median, spread, type Spread } from './statistics.ts'

// Comparison of a contender with others and with its targets. Ratios are taken within a round, because the
// machine's speed drifts.

/** Returns the targets of a contender with the measured values. */
export function verdicts (contender: ContenderResult, result: BenchResult): string[] {
  return contender.targets.map((target) => {
    const other = result.contenders.find(({ id }) => 'of' in target && id === target.of)
    const value = valueOf(target, contender, other)
    const met = 'atLeast' in target ? value !== undefined && value >= target.atLeast
      : value !== undefined && value <= target.atMost
    const outcome = value === undefined ? 'not measured'
      : `${value.toFixed(target.metric === 'rss' ? 0 : 2)} **${met ? 'met' : 'missed'}**`
    return `${describe(target, other?.name)}: ${outcome}`
  })
}

function valueOf (
  target: Target,
  contender: ContenderResult,
  other: ContenderResult | undefined
): number | undefined {
  switch (target.metric) {
    case 'rate':
      return ratioTo(contender, other, target.perCore === true ? wholeCoresRate : rate)?.median
    case 'p99':
      return ratioTo(contender, other, p99)?.median
    case 'max':
      return slowestMs(contender)
    case 'redis':
      return microsecondsPerRequest(contender, ({ redisCpu }) => redisCpu)
    case 'rss':
      return contender.peakRssBytes === undefined || other?.peakRssBytes === undefined ? undefined
        : (contender.peakRssBytes - other.peakRssBytes) / 2 ** 20
  }
}

function describe (target: Target, other = 'of' in target ? target.of : ''): string {
  switch (target.metric) {
    case 'rate':
      return `≥ ${target.atLeast} × ${other}`
    case 'p99':
      return `p99 ≤ ${target.atMost} × ${other}`
    case 'max':
      return `slowest ≤ ${target.atMost} ms`
    case 'redis':
      return `Redis ≤ ${target.atMost} µs`
    case 'rss':
      return `RSS ≤ ${target.atMost} MB above ${other}`
  }
}

/** Returns a contender's rate relative to the bare Fastify that it is compared with. */
export const ratioToBare = (contender: ContenderResult, result: BenchResult): Spread | undefined =>
  ratioTo(contender, bareOf(contender, result), rate)

/** Returns a contender's p99 relative to that of the bare Fastify that it is compared with. */
export const p99ToBare = (contender: ContenderResult, result: BenchResult): Spread | undefined =>
  ratioTo(contender, bareOf(contender, result), p99)

/** @param cpu returns processor seconds per second */
export const microsecondsPerRequest = (
  { rounds }: ContenderResult,
  cpu: (turn: TurnResult) => number | undefined
): number | undefined =>
  median(rounds.map((turn) => {
    const used = cpu(turn)
    return used === undefined ? undefined : used * 1e6 / turn.rate
  }))

/** The slowest response of all rounds, in milliseconds. */
export const slowestMs = ({ rounds }: ContenderResult): number =>
  Math.max(...rounds.map(({ maxMs }) => maxMs))

const bareOf = ({ bare }: ContenderResult, { contenders }: BenchResult): ContenderResult | undefined =>
  contenders.find(({ id }) => id === bare)

function ratioTo (
  contender: ContenderResult,
  other: ContenderResult | undefined,
  metric: (turn: TurnResult) => number | undefined
): Spread | undefined {
  if (other === undefined) return undefined
  return spread(contender.rounds.map((turn, round) => {
    const reference = other.rounds[round]
    const value = metric(turn)
    const against = reference === undefined ? undefined : metric(reference)
    return value === undefined || against === undefined ? undefined : value / against
  }))
}

const rate = (turn: TurnResult): number => turn.rate
const p99 = (turn: TurnResult): number => turn.p99Ms

/**
 * Returns the rate with as many exclusive cores as the server has processes. Two processes share two cores
 * with the generator, PostgreSQL and Redis, so their rate is scaled by 2 / (2 - used by those). A single
 * process has a core for itself.
 */
function wholeCoresRate (turn: TurnResult): number | undefined {
  if (turn.onBothCores !== true) return turn.rate
  const { generatorCpu, postgresCpu, redisCpu } = turn
  if (generatorCpu === undefined || postgresCpu === undefined || redisCpu === undefined) return undefined
  return turn.rate / ((2 - (generatorCpu + postgresCpu + redisCpu)) / 2)
}
