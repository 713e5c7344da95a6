import type { BenchResult, ContenderResult, TurnResult } from './results.ts'
import { median } from './statistics.ts'
import { microsecondsPerRequest, p99ToBare, ratioToBare, slowestMs, verdicts } from './verdicts.ts'

// The table of results. It has the medians of the rounds.

/** A generator with this processor time per second was the bottleneck. */
const SATURATED = 0.97

/** More than the kernel's network work on the server's core. */
const DISTURBED = 0.1

export function markdownTable (result: BenchResult): string {
  const rows = result.contenders.map((contender) => row(contender, result))
  const head = [
    'contender',
    'req/s',
    '× bare Fastify (quartiles)',
    'p50 ms',
    'p99 ms',
    'p99 × bare',
    'p99.9 ms',
    'max ms',
    'CPU µs/req',
    'Redis µs/req',
    'PostgreSQL µs/req',
    'RSS MB',
    'target'
  ]
  const lines = [head, ['---', ...head.slice(1, -1).map(() => '---:'), '---'], ...rows].map((cells) =>
    `| ${cells.join(' | ')} |`
  )
  const turns = result.contenders.flatMap(({ rounds }) => rounds)
  const disturbed = turns.filter(({ foreignCpu = 0 }) => foreignCpu > DISTURBED).length
  const late = median(turns.map(({ lateMs }) => lateMs))
  const notes = [
    `${result.machine.cpu}, ${result.machine.cores} cores, ${result.machine.memoryGb} GB, ` +
    `${result.machine.platform}, Node ${result.machine.node}`,
    `Load: ${result.generator}, ${result.options.connections} connections, ${result.options.rounds} ${
      result.options.rounds === 1 ? 'round' : 'rounds'
    } of ${result.options.seconds} s; medians`,
    result.pinning,
    'max ms: the slowest response of all rounds; RSS: the most after any turn, the warm-up included',
    ...late === undefined ? [] : [
      `Open loop: latencies count from the time at which a request was due, writes are not shown; the generator sent 99 % of the requests at most ${
        number(late, 2)
      } ms late`
    ],
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

function row (contender: ContenderResult, result: BenchResult): string[] {
  const { name, bare, id, rounds } = contender
  const ratio = ratioToBare(contender, result)
  const middle = (metric: (turn: TurnResult) => number): number | undefined => median(rounds.map(metric))
  const perRequest = (cpu: (turn: TurnResult) => number | undefined) =>
    number(microsecondsPerRequest(contender, cpu), 1)
  return [
    name,
    `${whole(middle(({ rate }) => rate))}${isSaturated(contender) ? '¹' : ''}`,
    ratio === undefined ? '–'
      : id === bare ? '1'
      : `**${number(ratio.median, ratio.median < 0.1 ? 3 : 2)}** (${number(ratio.lower, 2)}–${
        number(ratio.upper, 2)
      })`,
    number(middle(({ p50Ms }) => p50Ms), 2),
    number(middle(({ p99Ms }) => p99Ms), 2),
    id === bare ? '1' : number(p99ToBare(contender, result)?.median, 2),
    number(median(rounds.map(({ p999Ms }) => p999Ms)), 2),
    number(slowestMs(contender), 1),
    perRequest(({ serverCpu }) => serverCpu),
    perRequest(({ redisCpu }) => redisCpu),
    perRequest(({ postgresCpu }) => postgresCpu),
    whole(scaled(contender.peakRssBytes, 2 ** -20)),
    verdicts(contender, result).join('<br>')
  ]
}

/** At a fixed rate the generator is always busy, because it waits for the time of the next request. */
const isSaturated = ({ rounds }: ContenderResult): boolean =>
  (median(rounds.map(({ generatorCpu, lateMs }) => lateMs === undefined ? generatorCpu : 0)) ?? 0) >=
    SATURATED

const scaled = (value: number | undefined, factor: number): number | undefined =>
  value === undefined ? undefined : value * factor
const number = (value: number | undefined, digits: number): string =>
  value === undefined ? '–' : value.toFixed(digits)
const whole = (value: number | undefined): string =>
  value === undefined ? '–' : Math.round(value).toLocaleString('en')
