import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, readFileSync, readdirSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { delimiter, join } from 'node:path'

// The machine: its cores, and the processor time and memory of processes, from /proc.

/** The cores of each part of the benchmark. */
export interface Pinning {
  /** Core of the measured server. */
  readonly server: number
  /** Core of everything else: the generator, PostgreSQL, Redis, this process. */
  readonly rest: number
  /** Cores of a server with two processes: the first and the last one, which it shares with the generator. */
  readonly both: readonly [number, number]
}

/** Processor time and memory of several processes at one moment. */
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

/**
 * Returns the first and the last core that this process may use; undefined without taskset or a second core.
 */
export function findPinning (): Pinning | undefined {
  if (findProgram('taskset') === undefined) return undefined
  const allowed = allowedCores()
  const [server] = allowed
  const rest = allowed.at(-1)
  return server === undefined || rest === undefined || server === rest ? undefined
    : { server, rest, both: [server, rest] }
}

/** Pins this process, and all processes that it starts from now on, to cores. */
export function pinThisProcess (cores: readonly number[]): void {
  spawnSync('taskset', ['-a', '-c', '-p', cores.join(','), String(process.pid)], { stdio: 'ignore' })
}

/** Returns a command that runs another one on the given cores. */
export function pinned (
  command: readonly [string, ...string[]],
  cores: readonly number[] | undefined
): [string, ...string[]] {
  return cores === undefined ? [...command] : ['taskset', '-c', cores.join(','), ...command]
}

/** Finds a program on the PATH or in the system folders that are missing from some users' PATH. */
export function findProgram (name: string): string | undefined {
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    '/usr/sbin',
    '/usr/local/sbin',
    '/opt/homebrew/bin'
  ]
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
 * Returns what a process and its descendants have used so far.
 *
 * @returns undefined where there is no /proc, or the process has ended
 */
export function usageOf (pid: number): Usage | undefined {
  const processes = readProcesses()
  if (processes === undefined || !processes.has(pid)) return undefined
  const tree = new Set([pid])
  // A parent may come after its children in the list, so this repeats until nothing is added.
  for (let size = 0; size !== tree.size;) {
    size = tree.size
    for (const [child, { parent }] of processes) if (tree.has(parent)) tree.add(child)
  }
  let cpuSeconds = 0
  let rssBytes = 0
  for (const member of tree) {
    const entry = processes.get(member)
    // Includes children that have ended; otherwise the sum would fall when one ends.
    cpuSeconds += (entry?.cpuSeconds ?? 0) + (entry?.childrenSeconds ?? 0)
    rssBytes += entry?.rssBytes ?? 0
  }
  return { cpuSeconds, rssBytes }
}

/**
 * Returns the processor time of this process' ended children, in seconds. The difference of two calls is the
 * time of the generator that ran between them.
 */
export function endedChildrenSeconds (): number | undefined {
  return readStat('/proc/self/stat')?.childrenSeconds
}

/**
 * Returns the time that a core was busy, in seconds, for any process. Time that the host took from a virtual
 * core counts, too.
 */
export function coreSeconds (core: number): number | undefined {
  let text
  try {
    text = readFileSync('/proc/stat', 'latin1')
  } catch {
    return undefined
  }
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(text)?.[1]
  if (line === undefined) return undefined
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.trim().split(/\s+/)
    .map(Number)
  return (user + nice + system + irq + softirq + steal) / unitsOfProc().ticks
}

interface Stat {
  parent: number
  cpuSeconds: number
  childrenSeconds: number
  rssBytes: number
}

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
  // The second field is the name in brackets and may contain spaces. The fields after it begin with number 3
  // of proc(5).
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
