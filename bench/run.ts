import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join, resolve } from 'node:path'
import { startGuardian, type Guardian } from '../test/shared/guardian.ts'
import { MissingProgramError } from '../test/shared/programs.ts'
import { WrongResponseError } from './responses.ts'
import type { Contender, Context } from './contender.ts'
import { allContenders, isCalled, selectContenders } from './contenders.ts'
import { findGenerator } from './generators/generator.ts'
import { findPinning, machineFacts, pinThisProcess, type Pinning } from './machine.ts'
import { readOptions, USAGE, UsageError, type Options } from './options.ts'
import { hotCommand, hotServer } from './ours.ts'
import { hottestFunctions } from './profile.ts'
import { markdownTable } from './report.ts'
import type { BenchResult } from './results.ts'
import { MANY_PAGES, seedManyPages, seedPages } from './seed.ts'
import { startServer, type Server, type ServerCommand } from './servers.ts'
import { soak } from './soak.ts'
import { startStores } from './stores.ts'
import { drawRatios } from './svg.ts'
import { runRounds, type Rounds, type Runner } from './turns.ts'

// `npm run bench`: starts the servers, lets the contenders take turns, prints the table, and cleans up.

const ROOT = resolve(import.meta.dirname, '..')

let guardian: Guardian | undefined
let stopped = false

async function main (): Promise<number> {
  const options = readOptions(process.argv.slice(2))
  if (options === undefined) {
    process.stdout.write(`${USAGE}\n`)
    return 0
  }
  const all = allContenders(options.add)
  if (options.list) {
    for (const { name, skip } of all) {
      process.stdout.write(`${name}${skip === undefined ? '' : ` (can't run here: ${skip})`}\n`)
    }
    return 0
  }
  const only = options.only.length === 0 && options.soakSeconds !== undefined ? ['ours: one hot address 2 KB']
    : options.only
  const selected = selectContenders(all, only)
  if (selected.length === 0) {
    throw new UsageError(`no contender is called ${options.only.join(' or ')}; --list names them`)
  }
  if (!existsSync(join(ROOT, 'dist/cli/landfall.js'))) {
    throw new UsageError('the service is not built: npm run build')
  }
  endOnSignals()

  guardian = startGuardian()
  try {
    return await measure(selected, only, options, guardian)
  } finally {
    await guardian.end()
  }
}

async function measure (
  selected: readonly Contender[],
  only: readonly string[],
  options: Options,
  guardian: Guardian
): Promise<number> {
  const skipped = selected.flatMap(({ name, skip }) => skip === undefined ? [] : [{ name, reason: skip }])
  for (const { name, reason } of skipped) print(`not measured: ${name}: ${reason}`)
  const contenders = selected.filter(({ skip }) => skip === undefined)

  const pinning = findPinning()
  // Processes started from here inherit this; only the measured servers run on another core.
  if (pinning !== undefined) pinThisProcess([pinning.rest])
  print(pinningLine(pinning))
  const generator = findGenerator(options.generator, guardian)
  print(`load: ${generator.description}`)

  const { context, servers } = await start(contenders, options, pinning, guardian)
  const runners = contenders.map((contender): Runner => ({
    contender,
    server: servers.get(contender.server.id) as Server,
    load: contender.load(context)
  }))
  const settings = { context, generator, pinning, seconds: options.seconds, connections: options.connections }
  if (options.soakSeconds !== undefined) {
    const runner = runners.find(({ contender }) => isCalled(contender.name, only)) as Runner
    if (runner.contender.halfRateOf !== undefined) throw new UsageError('--soak takes no open loop')
    return await soak(runner, { ...settings, seconds: options.soakSeconds }, print)
  }

  const rounds = await runRounds(runners, options.rounds, settings, print)
  const result: BenchResult = {
    measuredAt: new Date().toISOString(),
    machine: machineFacts(),
    generator: generator.description,
    pinning: pinningLine(pinning),
    options: { rounds: options.rounds, seconds: options.seconds, connections: options.connections },
    contenders: contenders.map(({ id, name, bare, targets = [] }, index) => ({
      id,
      name,
      bare,
      targets,
      ...rounds[index] as Rounds
    })),
    skipped
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(result, null, 1)}\n`)
  if (options.svg !== undefined) writeFileSync(options.svg, drawRatios(result))
  process.stdout.write(`${markdownTable(result)}`)
  if (options.profile !== undefined) await printProfiles(options.profile, contenders, servers)
  return 0
}

/** Starts PostgreSQL and Redis, creates the data, and starts the contenders' servers. */
async function start (
  contenders: readonly Contender[],
  options: Options,
  pinning: Pinning | undefined,
  guardian: Guardian
): Promise<{ context: Context, servers: Map<string, Server> }> {
  print('starting PostgreSQL and Redis')
  const stores = await startStores(guardian, print)
  const core = pinning === undefined ? undefined : [pinning.server]
  const profiled = (command: ServerCommand): ServerCommand =>
    options.profile === undefined ? command : withProfile(command, options.profile)
  const servers = new Map<string, Server>()
  servers.set(hotServer.id, await startServer(profiled(hotCommand(stores)), core, guardian))
  print('creating pages through the service')
  const context = { stores, seed: await seedPages(servers.get(hotServer.id) as Server) }
  if (contenders.some(({ needsManyPages }) => needsManyPages)) {
    print(`adding ${MANY_PAGES.toLocaleString('en')} pages to PostgreSQL`)
    await seedManyPages(stores.postgresUrl, context.seed.manyBase)
  }
  for (const { server } of contenders) {
    if (servers.has(server.id)) continue
    print(`starting ${server.id}`)
    const command = server.command(context)
    const cores = server.onBothCores === true ? pinning?.both : core
    servers.set(
      server.id,
      await startServer(server.isOurs === true ? profiled(command) : command, cores, guardian)
    )
  }
  return { context, servers }
}

/** Profiles into a folder of the server's own, because each of its processes writes a file. */
function withProfile (server: ServerCommand, folder: string): ServerCommand {
  const [node, ...args] = server.command
  const own = join(folder, server.name)
  rmSync(own, { recursive: true, force: true })
  mkdirSync(own, { recursive: true })
  return { ...server, command: [node, '--cpu-prof', `--cpu-prof-dir=${own}`, ...args] }
}

async function printProfiles (
  folder: string,
  contenders: readonly Contender[],
  servers: ReadonlyMap<string, Server>
): Promise<void> {
  const ours = new Set(contenders.flatMap(({ server }) => server.isOurs === true ? [server.id] : []))
  for (const id of ours) {
    const server = servers.get(id) as Server
    await server.stop() // profiles are written at the end
    process.stdout.write(hottestFunctions(join(folder, server.name), server.turns))
  }
}

function pinningLine (pinning: Pinning | undefined): string {
  if (pinning === undefined) {
    return 'Cores: not separated (no taskset, or only one core), so server and generator disturb each other'
  }
  return `Cores: the server on core ${pinning.server}; generator, PostgreSQL and Redis on core ` +
    `${pinning.rest}`
}

function endOnSignals (): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (stopped) return
      stopped = true
      print(`${signal}: stopping`)
      Promise.resolve(guardian?.end()).finally(() => process.exit(128 + constants.signals[signal]))
    })
  }
}

/** Progress goes to standard error, so that the table can be redirected. */
function print (line: string): void {
  process.stderr.write(`${line}\n`)
}

try {
  process.exitCode = await main()
} catch (error) {
  // An error after a signal is a consequence of stopping; the signal handler ends the process.
  if (stopped) await new Promise(() => {})
  const known = error instanceof UsageError || error instanceof MissingProgramError ||
    error instanceof WrongResponseError
  if (error instanceof WrongResponseError) print(`wrong response: ${error.message}`)
  else console.error(known ? (error as Error).message : error)
  process.exitCode = 1
}
