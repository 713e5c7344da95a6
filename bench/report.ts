import type { Target } from './contender.ts'
import type { BenchResult, ContenderResult, TurnResult } from './results.ts'
import { median, spread, type Spread } from './statistics.ts'

// The table of results. Ratios are taken within a round, because the machine's speed drifts; the table has
// their medians.

/** Result of a target. `met` is undefined if the other contender wasn't measured. */
export interface Verdict {
  readonly text: string
  readonly value: Spread | undefined
  readonly met: boolean | undefined
}

/** A generator with this processor time per second was the bottleneck. */
const SATURATED = 0.97

/** More than the kernel's network work on the server's core. */
const DISTURBED = 0.1

export function markdownTable (result: BenchResult): string {
  const rows = result.contenders.map((contender) => row(contender, result))
  const head = ['contender', 'req/s', '× bare Fastify (quartiles)', 'p50 ms', 'p99 ms', 'p99 × bare',
    'CPU µs/req', 'stores µs/req', 'RSS MB', 'target']
  const lines = [head, ['---', ...head.slice(1, -1).map(() => '---:'), '---'], ...rows].map((cells) =>
    `| ${cells.join(' | ')} |`
  )
  const turns = result.contenders.flatMap(({ rounds }) => rounds)
  const disturbed = turns.filter(({ foreignCpu = 0 }) => foreignCpu > DISTURBED).length
  const notes = [
    `${result.machine.cpu}, ${result.machine.cores} cores, ${result.machine.memoryGb} GB, ${result.machine.platform}, Node ${result.machine.node}`,
    `Load: ${result.generator}, ${result.options.connections} connections, ${result.options.rounds} ${
      result.options.rounds === 1 ? 'round' : 'rounds'
    } of ${result.options.seconds} s; medians`,
    result.pinning,
    'Stores: the processor time of PostgreSQL and Redis together',
    ...disturbed > 0
      ? [
        `In ${disturbed} of ${turns.length} turns other processes used more than ${
          100 * DISTURBED
        } % of the server's core; this affects rates more than processor time per request`
      ] : [],
    ...result.contenders.some(isSaturated)
      ? ['¹ The generator was the bottleneck: the server could have done more'] : [],
    ...result.skipped.map(({ name, reason }) => `Not measured: ${name}: ${reason}`)
  ]
  return `${lines.join('\n')}\n\n${notes.map((note) => `- ${note}`).join('\n')}\n`
}

/** Returns the targets of a contender with the measured values. */
export function verdicts (contender: ContenderResult, result: BenchResult): Verdict[] {
  return contender.targets.map((target) => {
    const other = result.contenders.find(({ id }) => id === target.of)
    const value = ratioTo(
      contender,
      other,
      target.perCore === true ? wholeCoresRate : target.metric === 'rate' ? rate : p99
    )
    const bound = target.atLeast !== undefined ? `≥ ${target.atLeast}` : `≤ ${target.atMost}`
    const met = value === undefined ? undefined : meets(value.median, target)
    const outcome = met === undefined ? 'not measured'
      : `${value?.median.toFixed(2)} **${met ? 'met' : 'missed'}**`
    return {
      text: `${target.metric === 'p99' ? 'p99 ' : ''}${bound} × ${other?.name ?? target.of}: ${outcome}`,
      value,
      met
    }
  })
}

/** Returns a contender's rate relative to bare Fastify with a document of the same size. */
export function ratioToBare (contender: ContenderResult, result: BenchResult): Spread | undefined {
  return ratioTo(contender, result.contenders.find(({ id }) => id === contender.bare), rate)
}

function row (contender: ContenderResult, result: BenchResult): string[] {
  const { name, rounds } = contender
  const bare = result.contenders.find(({ id }) => id === contender.bare)
  const ratio = ratioToBare(contender, result)
  const perRequest = (cpu: (turn: TurnResult) => number | undefined) =>
    number(median(rounds.map((turn) => scaled(cpu(turn), 1e6 / turn.rate))), 1)
  return [
    name,
    `${whole(median(rounds.map(rate)))}${isSaturated(contender) ? '¹' : ''}`,
    ratio === undefined ? '–'
      : contender === bare ? '1'
      : `**${number(ratio.median, ratio.median < 0.1 ? 3 : 2)}** (${number(ratio.lower, 2)}–${
        number(ratio.upper, 2)
      })`,
    number(median(rounds.map(({ p50Ms }) => p50Ms)), 2),
    number(median(rounds.map(p99)), 2),
    contender === bare ? '1' : number(ratioTo(contender, bare, p99)?.median, 2),
    perRequest(({ serverCpu }) => serverCpu),
    perRequest(({ postgresCpu, redisCpu }) =>
      postgresCpu === undefined || redisCpu === undefined ? undefined : postgresCpu + redisCpu
    ),
    whole(scaled(median(rounds.map(({ rssBytes }) => rssBytes)), 2 ** -20)),
    verdicts(contender, result).map(({ text }) => text).join('<br>')
  ]
}

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

function meets (value: number, { atLeast, atMost }: Target): boolean {
  return (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost)
}

const isSaturated = ({ rounds }: ContenderResult): boolean =>
  (median(rounds.map(({ generatorCpu }) => generatorCpu)) ?? 0) >= SATURATED

const scaled = (value: number | undefined, factor: number): number | undefined =>
  value === undefined ? undefined : value * factor
const number = (value: number | undefined, digits: number): string =>
  value === undefined ? '–' : value.toFixed(digits)
const whole = (value: number | undefined): string =>
  value === undefined ? '–' : Math.round(value).toLocaleString('en')
