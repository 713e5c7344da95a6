import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, readFileSync, readdirSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { delimiter, join } from 'node:path'

// What the bench knows of the machine: its cores, and what Linux tells of processes in /proc.

/** Which cores the parts of the bench may use; undefined where they can't be kept apart. */
export interface Pinning {
  /** Of the server that is measured. */
  readonly server: number
  /** Of everything else: the generator, PostgreSQL, Redis, the bench itself. */
  readonly rest: number
  /** Of a server with two processes: the first and the last core, the latter shared with the generator. */
  readonly both: readonly [number, number]
}

/** Processor time and memory of some processes at a moment. */
export interface Usage {
  readonly cpuSeconds: number
  readonly rssBytes: number
}

export interface MachineFacts {
  readonly cpu: string
  readonly cores: number
  readonly memoryGb: number
  readonly platform: string
  readonly node: string
}

export function machineFacts (): MachineFacts {
  const cores = cpus()
  return {
    cpu: cores[0]?.model.trim() ?? 'unknown',
    cores: cores.length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    node: process.version
  }
}

/** The cores to pin to: the first and the last of those that this process may use. */
export function findPinning (): Pinning | undefined {
  if (findProgram('taskset') === undefined) return undefined
  const allowed = allowedCores()
  const [server] = allowed
  const rest = allowed.at(-1)
  return server === undefined || rest === undefined || server === rest ? undefined : { server, rest, both: [server, rest] }
}

/** Moves this process, and all that it starts from then on, to some cores. */
export function pinThisProcess (cores: readonly number[]): void {
  spawnSync('taskset', ['-a', '-c', '-p', cores.join(','), String(process.pid)], { stdio: 'ignore' })
}

/** A command that runs on some cores only, whatever those of this process are. */
export function pinned (command: readonly [string, ...string[]], cores: readonly number[] | undefined): [string, ...string[]] {
  return cores === undefined ? [...command] : ['taskset', '-c', cores.join(','), ...command]
}

/** A program on the path or in one of the folders that are not on the path of every account. */
export function findProgram (name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/opt/homebrew/bin']
  return folders.filter((folder) => folder !== '').map((folder) => join(folder, name)).find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/**
 * What a process and all that it started have used up to now.
 *
 * @returns undefined where there is no /proc, or the process has ended
 */
export function usageOf (pid: number): Usage | undefined {
  const processes = readProcesses()
  if (processes === undefined || !processes.has(pid)) return undefined
  const tree = new Set([pid])
  // Parents may stand behind their children: again until nothing is added.
  for (let size = 0; size !== tree.size;) {
    size = tree.size
    for (const [child, { parent }] of processes) if (tree.has(parent)) tree.add(child)
  }
  let cpuSeconds = 0
  let rssBytes = 0
  for (const member of tree) {
    const entry = processes.get(member)
    // With those of its children that have ended, or the sum would fall when one does.
    cpuSeconds += (entry?.cpuSeconds ?? 0) + (entry?.childrenSeconds ?? 0)
    rssBytes += entry?.rssBytes ?? 0
  }
  return { cpuSeconds, rssBytes }
}

/** Processor time of those children of this process that have ended, in seconds; the difference over a run is the run's. */
export function endedChildrenSeconds (): number | undefined {
  return readStat('/proc/self/stat')?.childrenSeconds
}

/** Processor time that a core has worked, for whomever, in seconds; what a host took away from a virtual one counts, too. */
export function coreSeconds (core: number): number | undefined {
  let text
  try {
    text = readFileSync('/proc/stat', 'latin1')
  } catch {
    return undefined
  }
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(text)?.[1]
  if (line === undefined) return undefined
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.trim().split(/\s+/).map(Number)
  return (user + nice + system + irq + softirq + steal) / unitsOfProc().ticks
}

interface Stat { parent: number, cpuSeconds: number, childrenSeconds: number, rssBytes: number }

let units: { ticks: number, pageBytes: number } | undefined

function unitsOfProc (): { ticks: number, pageBytes: number } {
  const read = (name: string): number => Number(execFileSync('getconf', [name], { encoding: 'utf8' }))
  units ??= { ticks: read('CLK_TCK'), pageBytes: read('PAGESIZE') }
  return units
}

function readStat (path: string): Stat | undefined {
  let text
  try {
    text = readFileSync(path, 'latin1')
  } catch {
    return undefined // no /proc, or the process has just ended
  }
  const { ticks, pageBytes } = unitsOfProc()
  // The second field, the name in brackets, may hold anything; proc(5) counts from 1, these begin with field 3.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const field = (number: number) => Number(fields[number - 3])
  return {
    parent: field(4),
    cpuSeconds: (field(14) + field(15)) / ticks,
    childrenSeconds: (field(16) + field(17)) / ticks,
    rssBytes: field(24) * pageBytes
  }
}

function readProcesses (): Map<number, Stat> | undefined {
  let names
  try {
    names = readdirSync('/proc')
  } catch {
    return undefined
  }
  const processes = new Map<number, Stat>()
  for (const name of names) {
    const stat = /^\d+$/.test(name) ? readStat(`/proc/${name}/stat`) : undefined
    if (stat !== undefined) processes.set(Number(name), stat)
  }
  return processes.size === 0 ? undefined : processes
}

function allowedCores (): number[] {
  const [, list = ''] = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'latin1')) ?? []
  return list.split(',').flatMap((range) => {
    const [first = NaN, last = first] = range.split('-').map(Number)
    return Number.isNaN(first) ? [] : Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}
