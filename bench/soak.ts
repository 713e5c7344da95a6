import { usageOf } from './machine.ts'
import { median } from './statistics.ts'
import { runTurn, type Runner, type TurnSettings } from './turns.ts'

// Runs a contender at full speed for a long time and checks whether memory grows. The first quarter doesn't
// count, because heaps and caches fill up then.

const INTERVAL_SECONDS = 10
/** Growth from the second to the last quarter that is allowed, because heap size fluctuates. */
const FLAT_SHARE = 0.05
const FLAT_MB = 8

/** @returns the exit code: 1 if memory grows */
export async function soak (
  runner: Runner,
  settings: Omit<TurnSettings, 'turns' | 'rate'>,
  print: (line: string) => void
): Promise<number> {
  const { seconds } = settings
  const { contender, server } = runner
  const intervalSeconds = Math.min(INTERVAL_SECONDS, seconds / 8)
  print(`${contender.name} at full speed for ${seconds} s`)
  const samples: number[] = []
  const started = Date.now()
  const sampler = setInterval(() => {
    const usage = usageOf(server.pid)
    if (usage === undefined) return
    samples.push(usage.rssBytes / 2 ** 20)
    print(`${Math.round((Date.now() - started) / 1000)} s: RSS ${Math.round(usage.rssBytes / 2 ** 20)} MB`)
  }, 1000 * intervalSeconds)
  const result = await runTurn(runner, 0, { ...settings, turns: 1 }).finally(() => clearInterval(sampler))

  const quarter = (number: 2 | 4): number | undefined =>
    median(samples.slice(
      Math.floor(samples.length * (number - 1) / 4),
      Math.floor(samples.length * number / 4)
    ))
  const before = quarter(2)
  const after = quarter(4)
  const rate = `${contender.name}: ${Math.round(result.rate).toLocaleString('en')} req/s over ${
    Math.round(result.seconds)
  } s, ${result.requests.toLocaleString('en')} requests, p99 ${result.p99Ms.toFixed(2)} ms`
  if (before === undefined || after === undefined) {
    process.stdout.write(`${rate}; memory could not be read here\n`)
    return 0
  }
  const flat = after - before <= Math.max(FLAT_MB, FLAT_SHARE * before)
  const change = `${after >= before ? '+' : '−'}${Math.abs(after - before).toFixed(1)} MB`
  process.stdout
    .write(`${rate}\nRSS ${before.toFixed(0)} MB in the second quarter, ${
      after.toFixed(0)
    } MB in the last (${change}): ${flat ? 'flat' : 'it GROWS'}\n`)
  return flat ? 0 : 1
}
