import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { startGuardian } from '../test/helpers/guardian.ts'
import { createCluster, startPostgres } from '../test/helpers/instances.ts'
import { MissingProgramError, providePrograms } from '../test/helpers/programs.ts'
import { SERVE, startService } from '../test/helpers/service.ts'
import { median } from './statistics.ts'

// `npm run bench:sign-ins`: the effect of 200 sign-ins at once on other requests. It sends reads at fixed
// times, whether or not earlier ones were answered, in alternating periods without and with bursts of
// sign-ins.

const ROUNDS = 4
const PERIOD_MS = 3000
const READS_PER_SECOND = 200
const BURST = 200
/** Target for the p99 of reads during bursts, relative to the p99 without. */
const MAX_RATIO = 2
const PASSWORD = 'correct horse battery'
/** Set in the environment of the process that signs in. */
const BURSTS = 'LANDFALL_BENCH_BURSTS'

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}
// Reads use open connections, because new ones would wait until the operating system has set up 200 others.
const readers = new Agent({ keepAlive: true })
const owners = new Agent({ keepAlive: true })

interface Answer {
  readonly status: number
  readonly body: string
  /** Milliseconds until the last byte of the answer. */
  readonly ms: number
}

async function ask (
  agent: Agent,
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: string | Buffer
): Promise<Answer> {
  const started = performance.now()
  return await new Promise((resolve, reject) => {
    request(url, { method, agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (data: string) => {
        text += data
      })
        .on(
          'end',
          () =>
            resolve({ status: response.statusCode as number, body: text, ms: performance.now() - started })
        )
        .on('error', reject)
    }).on('error', reject).end(body)
  })
}

async function main (): Promise<void> {
  const bin = providePrograms(['postgres'], print).postgres as string
  const guardian = startGuardian()
  const endings: (() => unknown)[] = []
  try {
    const server = await startPostgres(bin, await createCluster(bin, guardian.folder), guardian)
    const url = await startMeasuredService(server.url, guardian.folder, endings)
    const reads = await prepare(url)
    const burst = startBursts(url)
    endings.push(burst.end)
    const { results, bursts } = await measure(reads, burst.next)
    report(results, bursts)
  } finally {
    for (const end of endings) await end()
    readers.destroy()
    owners.destroy()
    await guardian.end()
  }
}

/** Starts the service without limits; returns its URL. `endings` gets the function that stops it. */
async function startMeasuredService (
  databaseUrl: string,
  folder: string,
  endings: (() => unknown)[]
): Promise<string> {
  const unlimited = String(2 ** 31 - 1)
  const { url } = await startService(
    { teardown: (end) => endings.push(end) },
    {
      DATABASE_URL: databaseUrl,
      JWT_SECRET: randomBytes(32).toString('hex'),
      UPLOADS_DIR: `${folder}/uploads`,
      LOG_LEVEL: 'warn',
      SIGN_IN_FAILURES_PER_ACCOUNT: unlimited,
      SIGN_IN_FAILURES_PER_ADDRESS: unlimited,
      RATE_LIMIT_PUBLIC: unlimited
    },
    SERVE,
    true
  )
  return url.replace('localhost', '127.0.0.1') // avoids name resolution
}

/** Answers of each kind of read, by round. */
type Results = Map<string, { without: Answer[][], with: Answer[][] }>

/** Runs all rounds, the first one as warm-up; returns the answers to reads and to sign-ins. */
async function measure (
  reads: Record<string, () => Promise<Answer>>,
  nextBurst: () => Promise<Answer[]>
): Promise<{ results: Results, bursts: Answer[] }> {
  const bursts: Answer[] = []
  const results: Results = new Map(Object.keys(reads).map((name) => [name, { without: [], with: [] }]))
  const burst = async () => {
    bursts.push(...await nextBurst())
  }
  for (let round = 0; round <= ROUNDS; round++) {
    print(round === 0 ? 'warming up …' : `round ${round} of ${ROUNDS} …`)
    for (const period of ['without', 'with'] as const) {
      const answers = await readSteadily(reads, period === 'with' ? burst : undefined)
      if (round > 0) { for (const [name, own] of answers) results.get(name)?.[period].push(own) }
      await sleep(200)
    }
  }
  return { results, bursts }
}

/** Creates an account with a page and an upload, and returns the requests that read them. */
async function prepare (url: string): Promise<Record<string, () => Promise<Answer>>> {
  const json = { 'content-type': 'application/json' }
  const { access_token: token } = JSON
    .parse((await ask(
      readers,
      'POST',
      `${url}/auth/sign_up`,
      json,
      JSON.stringify({
        user: { email: 'owner@example.com', password: PASSWORD, password_confirmation: PASSWORD }
      })
    )).body)
  const authorization = `Bearer ${token}`
  const { public_id: publicId } = JSON
    .parse((await ask(
      readers,
      'POST',
      `${url}/landing_pages`,
      { ...json, authorization },
      JSON.stringify({ current_data: { text: 'x'.repeat(2000) } })
    )).body)
  const boundary = 'boundary'
  const upload =
    `--${boundary}\r\nContent-Disposition: form-data; name="asset[file]"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n${
      'x'.repeat(2000)
    }\r\n--${boundary}--\r\n`
  const created = await ask(readers, 'POST', `${url}/assets`, {
    authorization,
    'content-type': `multipart/form-data; boundary=${boundary}`
  }, upload)
  const { pathname } = new URL(JSON.parse(created.body).url)
  return {
    'page (warm)': async () => await ask(readers, 'GET', `${url}/landing_pages/${publicId}`),
    'session check (PostgreSQL)': async () => await ask(readers, 'GET', `${url}/auth/me`, { authorization }),
    'upload (file system, through the thread pool)': async () =>
      await ask(readers, 'GET', `${url}${pathname}`)
  }
}

/**
 * Signs in from a separate process, because the reads would otherwise wait until 200 requests are written.
 */
function startBursts (url: string): { next: () => Promise<Answer[]>, end: () => void } {
  const child = fork(import.meta.filename, [url], { env: { ...process.env, [BURSTS]: '1' } })
  return {
    async next () {
      child.send('next')
      const [answers] = await once(child, 'message') as [Answer[]]
      return answers
    },
    end () {
      child.disconnect()
    }
  }
}

function serveBursts (url: string): void {
  const body = JSON.stringify({ user: { email: 'owner@example.com', password: PASSWORD } })
  const signIn = async () =>
    await ask(owners, 'POST', `${url}/auth/sign_in`, { 'content-type': 'application/json' }, body)
  process.on('message', async () => process.send?.(await Promise.all(Array.from({ length: BURST }, signIn))))
  process.on('disconnect', () => process.exit())
}

async function readSteadily (
  reads: Record<string, () => Promise<Answer>>,
  burst?: () => Promise<unknown>
): Promise<Map<string, Answer[]>> {
  const underWay = new Map<string, Promise<Answer>[]>(Object.keys(reads).map((name) => [name, []]))
  const started = performance.now()
  const end = started + PERIOD_MS
  const bursting = (async () => {
    if (burst !== undefined) {
      do await burst()
      while (performance.now() < end)
    }
  })()
  for (let sent = 0; performance.now() < end; sent++) {
    for (const [name, read] of Object.entries(reads)) underWay.get(name)?.push(read())
    await sleep(Math.max(0, started + (sent + 1) * 1000 / READS_PER_SECOND - performance.now()))
  }
  const answers = new Map<string, Answer[]>()
  for (const [name, own] of underWay) answers.set(name, await Promise.all(own))
  await bursting
  return answers
}

function report (results: Results, bursts: readonly Answer[]): void {
  const at = (share: number, rounds: Answer[][]) =>
    median(rounds.map((answers) => {
      const times = answers.map(({ ms }) => ms).sort((a, b) => a - b)
      return times[Math.floor(times.length * share)] as number
    })) as number
  print(`\n| read, ${READS_PER_SECOND} a second | p50 ms without | with ${BURST} sign-ins at once | p99 ms without | with | ratio | not 200 |\n|---|--:|--:|--:|--:|--:|--:|`)
  const verdicts: string[] = []
  for (const [name, periods] of results) {
    const failed = [...periods.without, ...periods.with].flat().filter(({ status }) => status !== 200).length
    const [quiet, busy] = [at(0.99, periods.without), at(0.99, periods.with)]
    verdicts.push(`${name}: ${busy / quiet <= MAX_RATIO ? 'met' : 'missed'}`)
    print(`| ${name} | ${at(0.5, periods.without).toFixed(2)} | ${at(0.5, periods.with).toFixed(2)} | ${
      quiet.toFixed(2)
    } | ${busy.toFixed(2)} | ${(busy / quiet).toFixed(1)} | ${failed} |`)
  }
  print(`p99 with sign-ins at most ${MAX_RATIO} times that without: ${verdicts.join(', ')}`)
  print('(Reads and sign-ins come from two processes on the cores of the service, so these times include their own delays.)')
  const statuses = new Map<number, number[]>()
  for (const { status, ms } of bursts) statuses.set(status, [...statuses.get(status) ?? [], ms])
  for (const [status, times] of statuses) {
    print(`sign-ins answered with ${status}: ${times.length}, median ${
      Math.round(median(times) as number)
    } ms, longest ${Math.round(Math.max(...times))} ms`)
  }
}

try {
  if (process.env[BURSTS] !== undefined) serveBursts(process.argv[2] as string)
  else await main()
} catch (error) {
  console.error(error instanceof MissingProgramError ? error.message : error)
  process.exitCode = 1
}
