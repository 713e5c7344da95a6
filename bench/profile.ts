import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Prints where a server spent its time, from the profiles that `node --cpu-prof` writes:
// node --import=tsx bench/profile.ts FILE …

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string, readonly url: string, readonly lineNumber: number }
  }[]
  readonly samples: readonly number[]
  /** Microseconds of the monotonic clock, like all times here. */
  readonly startTime: number
  /** Microseconds since the previous sample. */
  readonly timeDeltas: readonly number[]
}

const SHOWN = 25
/** Entries outside of the server's code. */
const IDLE = ['(idle)', '(program)', '(root)']

/**
 * Returns a table of the functions with the most self time for each profile in a folder.
 *
 * @param turns periods under load, in microseconds of the monotonic clock; other samples are ignored
 */
export function hottestFunctions (folder: string, turns: readonly [number, number][]): string {
  const files = readdirSync(folder).filter((file) => file.endsWith('.cpuprofile')).map((file) =>
    join(folder, file)
  )
  return files.map((file) => selfTimeTable(file, turns)).join('') || `no profile in ${folder}\n`
}

export function selfTimeTable (file: string, turns: readonly [number, number][] = []): string {
  const { nodes, samples, timeDeltas, startTime } = JSON.parse(readFileSync(file, 'utf8')) as CpuProfile
  const byId = new Map(nodes.map((node) => [node.id, label(node.callFrame)]))
  const selfTimes = new Map<string, number>()
  let now = startTime
  for (const [index, id] of samples.entries()) {
    const time = timeDeltas[index] ?? 0
    now += time
    if (turns.length > 0 && !turns.some(([from, until]) => now >= from && now <= until)) continue
    const name = byId.get(id) ?? '(unknown)'
    selfTimes.set(name, (selfTimes.get(name) ?? 0) + time)
  }
  const busy = [...selfTimes].filter(([name]) => !IDLE.includes(name)).sort(([, a], [, b]) => b - a)
  const total = busy.reduce((sum, [, time]) => sum + time, 0)
  const share = (time: number): string => `${(100 * time / total).toFixed(1)} %`
  const native = selfTimes.get('(program)') ?? 0
  return `\n${file}\n${(total / 1e6).toFixed(1)} s in JavaScript and what it calls, ${
    (native / 1e6).toFixed(1)
  } s in Node's own code outside of it ((program))\n\n` +
    '| self time | share | function |\n| ---: | ---: | --- |\n' +
    busy.slice(0, SHOWN).map(([name, time]) =>
      `| ${(time / 1e3).toFixed(0)} ms | ${share(time)} | ${name} |\n`
    ).join('')
}

function label ({ functionName, url, lineNumber }: CpuProfile['nodes'][number]['callFrame']): string {
  const name = functionName === '' ? '(anonymous)' : functionName
  if (url === '') return name
  const path = url.startsWith('file:') ? fileURLToPath(url) : url
  // Begins with the name of the package, or with dist/.
  const short = path.includes('/node_modules/') ? path.replace(/^.*\/node_modules\//, '')
    : path.replace(/^.*\/(dist\/)/, '$1')
  return `${name} ${short}:${lineNumber + 1}`
}

if (process.argv[1] === import.meta.filename) {
  for (const file of process.argv.slice(2)) process.stdout.write(selfTimeTable(file))
}
