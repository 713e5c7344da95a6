import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { startBalancer } from '../test/shared/balancer.ts'
import { startGuardian } from '../test/shared/guardian.ts'
import { createCluster, startPostgres } from '../test/shared/instances.ts'
import { MissingProgramError, providePrograms } from '../test/shared/programs.ts'
import { startMeasuredService } from './measured-service.ts'
import { ask, closeAgents, form, FORM_TYPE, JSON_TYPE, LOADS, PASSWORD, PERIOD_MS, type Account,
  type Response, type Load, type Owners } from './neighbour-loads.ts'
import { median } from './statistics.ts'

// `npm run bench:neighbours [-- --nginx]`: what greedy accounts do to everybody else's requests.
// It sends reads at fixed times, whether or not earlier ones were answered, in periods without and with each
// kind of load. With `--nginx`, all requests pass the nginx of deploy/.

const ROUNDS = 4
const READS_PER_SECOND = 200
/** Target for the p99 of public reads during sign-ins, relative to the p99 without load. */
const MAX_RATIO = 2
/** Target for the p99 of public reads during the other loads, in milliseconds. */
const MAX_P99_MS = 100
const MAX_ACCOUNTS = 40
/** Set in the environment of the process that makes the load. */
const IS_LOAD = 'LANDFALL_BENCH_LOADS'

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}
// Reads use open connections, because new ones would wait until the operating system has set up 200 others.
const readers = new Agent({ keepAlive: true })

async function main (): Promise<void> {
  const hasNginx = process.argv.includes('--nginx')
  const programs = providePrograms(hasNginx ? ['postgres', 'nginx'] : ['postgres'], print)
  const bin = programs.postgres
  const guardian = startGuardian()
  const endings: (() => unknown)[] = []
  try {
    const server = await startPostgres(bin, await createCluster(bin, guardian.folder), guardian)
    const { url: direct } = await startMeasuredService(server.url, guardian, endings, {
      TRUST_PROXY: hasNginx ? '127.0.0.1' : ''
    })
    const url = !hasNginx ? direct : (await startBalancer({ teardown: (end) => endings.push(end) }, {
      nginx: programs.nginx as string,
      replicas: [direct, direct],
      uploads: `${guardian.folder}/uploads`,
      variables: { NGINX_CONNECTIONS_PER_ADDRESS: '64' }
    })).url
    const reads = await prepareReads(url)
    const load = startLoads(await prepareOwners(url))
    endings.push(load.end)
    const { results, responses } = await measure(reads, load.next)
    report(reads, results, responses)
  } finally {
    for (const end of endings) await end()
    readers.destroy()
    closeAgents()
    await guardian.end()
  }
}

/** The periods of a round: one without a load, and one with each. */
const PERIODS = [undefined, ...Object.keys(LOADS)]

/** The responses to each kind of read, by period and round. */
type Results = Map<string, Map<string | undefined, Response[][]>>

interface Read {
  readonly send: () => Promise<Response>
  readonly perSecond: number
  /** The only period in which it is sent; by default all of them. */
  readonly period?: string
}
type Reads = Record<string, Read>

const readsIn = (period: string | undefined, reads: Reads): Reads =>
  Object.fromEntries(Object.entries(reads).filter(([, read]) => (read.period ?? period) === period))

/** Runs all rounds, the first one as warm-up; returns the responses to reads, and those to each load. */
async function measure (
  reads: Reads,
  nextLoad: (name: string) => Promise<Response[]>
): Promise<{ results: Results, responses: Map<string, Response[]> }> {
  const responses = new Map(Object.keys(LOADS).map((name) => [name, [] as Response[]]))
  const results: Results = new Map(Object.keys(reads).map((name) => [
    name,
    new Map(PERIODS.filter((period) => name in readsIn(period, reads)).map((period) => [period, []]))
  ]))
  for (let round = 0; round <= ROUNDS; round++) {
    print(round === 0 ? 'warming up …' : `round ${round} of ${ROUNDS} …`)
    for (const period of PERIODS) {
      const load = period === undefined ? undefined
        : async () => responses.get(period)?.push(...await nextLoad(period))
      const own = await readSteadily(readsIn(period, reads), load)
      if (round > 0) { for (const [name, list] of own) results.get(name)?.get(period)?.push(list) }
      await sleep(200)
    }
  }
  return { results, responses }
}

async function createAccount (url: string, email: string): Promise<Account> {
  const user = { email, password: PASSWORD, password_confirmation: PASSWORD }
  const { body } = await ask(readers, 'POST', `${url}/auth/sign_up`, JSON_TYPE, JSON.stringify({ user }))
  const authorization = `Bearer ${JSON.parse(body).access_token}`
  const page = await createPage(url, authorization, 'x')
  return { url, email, authorization, pageId: page.id }
}

async function createPage (
  url: string,
  authorization: string,
  text: string
): Promise<{ id: string, public_id: string }> {
  const body = JSON.stringify({ current_data: [text] })
  const headers = { ...JSON_TYPE, authorization }
  return JSON.parse((await ask(readers, 'POST', `${url}/landing_pages`, headers, body)).body)
}

/** Creates an account with a page and an upload, and returns the requests that read them. */
async function prepareReads (url: string): Promise<Reads> {
  const reader = await createAccount(url, 'reader@example.com')
  const { authorization } = reader
  const { public_id: publicId } = await createPage(url, authorization, 'x'.repeat(2000))
  const upload = form('a.txt', Buffer.alloc(2000, 'x'))
  const created = await ask(readers, 'POST', `${url}/assets`, { authorization, ...FORM_TYPE }, upload)
  const { pathname } = new URL(JSON.parse(created.body).url)
  const steadily = (send: Read['send']): Read => ({ send, perSecond: READS_PER_SECOND })
  const reads: Reads = {
    'page (warm)': steadily(async () => await ask(readers, 'GET', `${url}/landing_pages/${publicId}`)),
    'session check (PostgreSQL)': steadily(async () =>
      await ask(readers, 'GET', `${url}/auth/me`, { authorization })
    ),
    'upload (file system, through the thread pool)': steadily(async () =>
      await ask(readers, 'GET', `${url}${pathname}`)
    )
  }
  for (const [period, { neighbour }] of Object.entries(LOADS)) {
    if (neighbour === undefined) continue
    const { name, perSecond, send } = neighbour
    reads[`${name}, beside ${period}`] = { send: async () => await send(reader), perSecond, period }
  }
  return reads
}

/** Creates the accounts of the loads. The first one has large documents to list. */
async function prepareOwners (url: string): Promise<Owners> {
  const first = await createAccount(url, 'owner@example.com')
  for (let n = 0; n < 20; n++) await createPage(url, first.authorization, 'x'.repeat(60_000))
  const accounts: Owners['accounts'] = [first]
  while (accounts.length < MAX_ACCOUNTS) {
    accounts.push(await createAccount(url, `owner-${accounts.length}@example.com`))
  }
  return { url, accounts }
}

/** Makes the load in a separate process, because the reads would otherwise wait until it is written. */
function startLoads (owners: Owners): { next: (name: string) => Promise<Response[]>, end: () => void } {
  const child = fork(import.meta.filename, [JSON.stringify(owners)], {
    env: { ...process.env, [IS_LOAD]: '1' }
  })
  return {
    async next (name) {
      child.send(name)
      const [responses] = await once(child, 'message') as [Response[]]
      return responses
    },
    end () {
      child.disconnect()
    }
  }
}

function serveLoads (owners: Owners): void {
  process.on('message', async (name: string) => {
    const { count, send } = LOADS[name] as Load
    const sendOne = send(owners)
    const responses = await Promise.all(Array.from({ length: count }, sendOne))
    process.send?.(responses.map(({ status, ms }) => ({ status, ms, body: '' })))
  })
  process.on('disconnect', () => process.exit())
}

async function readSteadily (
  reads: Reads,
  load?: () => Promise<unknown>
): Promise<Map<string, Response[]>> {
  const underWay = new Map<string, Promise<Response>[]>(Object.keys(reads).map((name) => [name, []]))
  const started = performance.now()
  const end = started + PERIOD_MS
  const loading = (async () => {
    if (load !== undefined) {
      do await load()
      while (performance.now() < end)
    }
  })()
  for (let sent = 0; performance.now() < end; sent++) {
    for (const [name, { send, perSecond }] of Object.entries(reads)) {
      if (sent % (READS_PER_SECOND / perSecond) === 0) underWay.get(name)?.push(send())
    }
    await sleep(Math.max(0, started + (sent + 1) * 1000 / READS_PER_SECOND - performance.now()))
  }
  const responses = new Map<string, Response[]>()
  for (const [name, own] of underWay) responses.set(name, await Promise.all(own))
  await loading
  return responses
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300

function report (reads: Reads, results: Results, responses: Map<string, Response[]>): void {
  const at = (share: number, rounds: Response[][] = []) =>
    median(rounds.map((list) => {
      const times = list.map(({ ms }) => ms).sort((a, b) => a - b)
      return times[Math.floor(times.length * share)] as number
    })) as number
  const verdicts: string[] = []
  for (const [name, periods] of results) {
    print(`\n| ${name}, ${
      reads[name]?.perSecond
    } a second | p50 ms | p99 ms | × without | failed |\n|---|--:|--:|--:|--:|`)
    const calm = at(0.99, periods.get(undefined))
    for (const [period, rounds] of periods) {
      const [p50, p99] = [at(0.5, rounds), at(0.99, rounds)]
      const failed = rounds.flat().filter(({ status }) => !isSuccess(status)).length
      const load = period === undefined ? 'without' : `${LOADS[period]?.count} ${period}`
      const ratio = periods.has(undefined) ? (p99 / calm).toFixed(1) : ''
      print(`| ${load} | ${p50.toFixed(1)} | ${p99.toFixed(1)} | ${ratio} | ${failed} |`)
      if (!periods.has(undefined)) {
        if (failed > 0) verdicts.push(`${name}: missed, ${failed} failed`)
        else verdicts.push(`${name}: met`)
      }
      if (name !== 'page (warm)' || period === undefined) continue
      const met = period === 'sign-ins' ? p99 <= MAX_RATIO * calm : p99 <= MAX_P99_MS
      verdicts.push(`${period}: ${met ? 'met' : 'missed'}`)
    }
  }
  print(`\np99 of public reads at most ${MAX_RATIO} times that without sign-ins, and ${MAX_P99_MS} ms ` +
    'beside the rest; no request of a neighbour fails:')
  for (const verdict of verdicts) print(`- ${verdict}`)
  print('(Reads and loads come from two processes on the cores of the service, so these times include ' +
    'their own delays.)')
  for (const [name, list] of responses) {
    const statuses = [...new Set(list.map(({ status }) => status))].map((status) => {
      const times = list.filter((response) => response.status === status).map(({ ms }) => ms)
      return `${times.length} × ${status}, median ${Math.round(median(times) as number)} ms`
    })
    print(`${name}: ${statuses.join('; ')}`)
  }
}

try {
  if (process.env[IS_LOAD] !== undefined) serveLoads(JSON.parse(process.argv[2] as string))
  else await main()
} catch (error) {
  console.error(error instanceof MissingProgramError ? error.message : error)
  process.exitCode = 1
}
