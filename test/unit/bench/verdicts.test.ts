import t from 'tap'
import type { Target } from '../../../bench/contender.ts'
import { allContenders, selectContenders } from '../../../bench/contenders.ts'
import { markdownTable } from '../../../bench/report.ts'
import type { BenchResult, TurnResult } from '../../../bench/results.ts'

const turn: TurnResult = {
  rate: 1000,
  p50Ms: 1,
  p99Ms: 2,
  maxMs: 20,
  requests: 1000,
  seconds: 1,
  serverCpu: 0.02,
  foreignCpu: 0,
  generatorCpu: 0.1,
  postgresCpu: 0.004,
  redisCpu: 0.002,
  rssBytes: 1
}

/** A reference, and a contender that has half of its rate in the second of its rounds. */
function result (targets: readonly Target[], changes: Partial<TurnResult> = {}): BenchResult {
  const contender = (id: string, rounds: TurnResult[], megabytes: number, targets: readonly Target[]) => ({
    id,
    name: `the ${id}`,
    bare: 'bare-2k',
    targets,
    peakRssBytes: megabytes * 2 ** 20,
    rounds
  })
  return {
    measuredAt: '',
    machine: { cpu: '', cores: 2, memoryGb: 1, platform: '', node: '' },
    generator: '',
    pinning: '',
    options: { rounds: 3, seconds: 1, connections: 1 },
    skipped: [],
    contenders: [
      contender('bare-2k', [turn, turn, turn], 100, []),
      contender('crowd', [turn, { ...turn, rate: 500, ...changes }, turn], 200, targets)
    ]
  }
}

t.test('each kind of target is compared with what was measured', async (t) => {
  const of = 'bare-2k'
  for (
    const [target, text] of [
      [{ metric: 'rate', of, atLeast: 1 }, '≥ 1 × the bare-2k: 1.00 **met**'],
      [{ metric: 'rate', of, atLeast: 1.01 }, '≥ 1.01 × the bare-2k: 1.00 **missed**'],
      [{ metric: 'rate', of: 'other', atLeast: 1 }, '≥ 1 × other: not measured'],
      [{ metric: 'p99', of, atMost: 1 }, 'p99 ≤ 1 × the bare-2k: 1.00 **met**'],
      [{ metric: 'redis', atMost: 2 }, 'Redis ≤ 2 µs: 2.00 **met**'],
      [{ metric: 'redis', atMost: 1 }, 'Redis ≤ 1 µs: 2.00 **missed**'],
      [{ metric: 'rss', of, atMost: 100 }, 'RSS ≤ 100 MB above the bare-2k: 100 **met**'],
      [{ metric: 'rss', of, atMost: 99 }, 'RSS ≤ 99 MB above the bare-2k: 100 **missed**'],
      // The slowest answer counts, not the median of the rounds.
      [{ metric: 'max', atMost: 50 }, 'slowest ≤ 50 ms: 51.00 **missed**'],
      [{ metric: 'max', atMost: 51 }, 'slowest ≤ 51 ms: 51.00 **met**']
    ] as const
  ) {
    const table = markdownTable(result([target], { maxMs: 51 }))
    t.ok(table.includes(`| ${text} |`), `${text}\n${table}`)
  }
})

t.test('the processor time of Redis and PostgreSQL has a column each', async (t) => {
  const [head = '', , , row = ''] = markdownTable(result([])).split('\n')
  const names = head.split(' | ')
  const cells = row.split(' | ')
  const cell = (name: string): string | undefined => cells[names.indexOf(name)]
  t.equal(cell('CPU µs/req'), '20.0')
  t.equal(cell('Redis µs/req'), '2.0')
  t.equal(cell('PostgreSQL µs/req'), '4.0')
  t.equal(cell('RSS MB'), '200')
  t.equal(cell('max ms'), '20.0')
})

t.test('the generator is not the bottleneck because an open loop keeps it busy', async (t) => {
  const busy = (changes: Partial<TurnResult>): string => {
    const { contenders, ...rest } = result([])
    return markdownTable({
      ...rest,
      contenders: contenders.map((contender) => ({
        ...contender,
        rounds: contender.rounds.map((turn) => ({ ...turn, generatorCpu: 1, ...changes }))
      }))
    })
  }
  t.match(busy({}), '¹ The generator was the bottleneck')
  t.notMatch(busy({ lateMs: 0.3 }), '¹')
  t.match(busy({ lateMs: 0.3 }), 'at most 0.30 ms late')
})

t.test('a contender brings those that its targets and its rate need', async (t) => {
  const chosen = selectContenders(allContenders(undefined), ['ours: open loop']).map(({ id }) => id)
  t.same(chosen, ['crowd', 'bare-2k', 'ours-2k', 'bare-open', 'open'])
})
