import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { startGuardian } from '../test/helpers/guardian.ts'
import { createCluster, startPostgres } from '../test/helpers/instances.ts'
import { MissingProgramError, providePrograms } from '../test/helpers/programs.ts'
import { startMeasuredService } from './measured-service.ts'
import { median } from './statistics.ts'

// `npm run bench:neighbours`: what one account at its worst does to everybody else's requests. It sends reads
// at fixed times, whether or not earlier ones were answered, in periods without and with each kind of load.

const ROUNDS = 4
const PERIOD_MS = 3000
const READS_PER_SECOND = 200
/** Target for the p99 of public reads during sign-ins, relative to the p99 without load. */
const MAX_RATIO = 2
/** Target for the p99 of public reads during the other loads, in milliseconds. */
const MAX_P99_MS = 100
/** The load that sign-ins of somebody else are measured beside. */
const GREEDY = 'sign-ins of three addresses to nine accounts'
const SIGN_INS_PER_SECOND = 5
const RETRY_MS = 50
const PASSWORD = 'correct horse battery'
const EMAIL = 'owner@example.com'
const READER = 'reader@example.com'
const MEBIBYTE = 1024 * 1024
/** Set in the environment of the process that makes the load. */
const LOADS = 'LANDFALL_BENCH_LOADS'
const BOUNDARY = 'boundary'
const JSON_TYPE = { 'content-type': 'application/json' }
const FORM_TYPE = { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` }

/** The account of the load, and what it has. */
interface Owner {
  readonly url: string
  readonly authorization: string
  readonly pageId: string
  /** Nine more accounts. */
  readonly emails: readonly string[]
}

interface Load {
  /** How many requests are sent at once, again and again. */
  readonly count: number
  readonly send: (owner: Owner) => () => Promise<Answer>
}

const LOADS_BY_NAME: Record<string, Load> = {
  'sign-ins': {
    count: 200,
    send: ({ url }) => async () => await signIn(owners, url, EMAIL)
  },
  [GREEDY]: {
    count: 90,
    send ({ url, emails }) {
      let started = 0
      return async () => {
        const n = started++
        const end = performance.now() + PERIOD_MS
        for (;;) {
          const answer = await signIn(addresses[n % 3] as Agent, url, emails[n % emails.length] as string)
          if (performance.now() > end) return answer
          if (answer.status !== 200) await sleep(RETRY_MS)
        }
      }
    }
  },
  'writes of 1 MiB, many members': {
    count: 16,
    send: (owner) => patch(owner, `{${Array.from({ length: 100_000 }, (_, n) => `"${n}":0`).join()}}`)
  },
  'writes of 1 MiB, empty arrays': {
    count: 16,
    send: (owner) => patch(owner, `[${Array.from({ length: 340_000 }, () => '[]').join()}]`)
  },
  'lists of large documents': {
    count: 60,
    send: ({ url, authorization }) => async () =>
      await ask(owners, 'GET', `${url}/manage/landing_pages?limit=100`, { authorization })
  },
  'uploads of a JPEG of zeros': {
    count: 16,
    send: ({ url, authorization }) => {
      const picture = Buffer.alloc(MEBIBYTE)
      picture.set([0xff, 0xd8, 0xff])
      const body = form('a.jpg', picture)
      return async () => await ask(owners, 'POST', `${url}/assets`, { authorization, ...FORM_TYPE }, body)
    }
  }
}

function patch ({ url, authorization, pageId }: Owner, document: string): () => Promise<Answer> {
  const body = `{"current_data":${document}}`
  return async () =>
    await ask(owners, 'PATCH', `${url}/manage/landing_pages/${pageId}`, { ...JSON_TYPE, authorization }, body)
}

/** The body of an upload. */
const form = (filename: string, bytes: Buffer): Buffer =>
  Buffer.concat([
    Buffer
      .from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="asset[file]"; filename="${filename}"\r\n\r\n`),
    bytes,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`)
  ])

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}
// Reads use open connections, because new ones would wait until the operating system has set up 200 others.
const readers = new Agent({ keepAlive: true })
const owners = new Agent({ keepAlive: true })
/** Three addresses for a load, and one for somebody else. */
const addresses = [2, 3, 4, 5].map((host) => new Agent({ keepAlive: true, localAddress: `127.0.0.${host}` }))

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
    const { url } = await startMeasuredService(server.url, guardian.folder, endings)
    const reads = await prepareReads(url)
    const load = startLoads(await prepareOwner(url))
    endings.push(load.end)
    const { results, answers } = await measure(reads, load.next)
    report(reads, results, answers)
  } finally {
    for (const end of endings) await end()
    for (const agent of [readers, owners, ...addresses]) agent.destroy()
    await guardian.end()
  }
}

/** The periods of a round: one without a load, and one with each. */
const PERIODS = [undefined, ...Object.keys(LOADS_BY_NAME)]

/** The answers to each kind of read, by period and round. */
type Results = Map<string, Map<string | undefined, Answer[][]>>

interface Read {
  readonly send: () => Promise<Answer>
  readonly perSecond: number
  /** The only period in which it is sent; by default all of them. */
  readonly period?: string
}
type Reads = Record<string, Read>

const readsIn = (period: string | undefined, reads: Reads): Reads =>
  Object.fromEntries(Object.entries(reads).filter(([, read]) => (read.period ?? period) === period))

/** Runs all rounds, the first one as warm-up; returns the answers to reads, and those to each load. */
async function measure (
  reads: Reads,
  nextLoad: (name: string) => Promise<Answer[]>
): Promise<{ results: Results, answers: Map<string, Answer[]> }> {
  const answers = new Map(Object.keys(LOADS_BY_NAME).map((name) => [name, [] as Answer[]]))
  const results: Results = new Map(Object.keys(reads).map((name) => [
    name,
    new Map(PERIODS.filter((period) => name in readsIn(period, reads)).map((period) => [period, []]))
  ]))
  for (let round = 0; round <= ROUNDS; round++) {
    print(round === 0 ? 'warming up …' : `round ${round} of ${ROUNDS} …`)
    for (const period of PERIODS) {
      const load = period === undefined ? undefined
        : async () => answers.get(period)?.push(...await nextLoad(period))
      const own = await readSteadily(readsIn(period, reads), load)
      if (round > 0) { for (const [name, list] of own) results.get(name)?.get(period)?.push(list) }
      await sleep(200)
    }
  }
  return { results, answers }
}

async function signUp (url: string, email: string): Promise<string> {
  const user = { email, password: PASSWORD, password_confirmation: PASSWORD }
  const { body } = await ask(readers, 'POST', `${url}/auth/sign_up`, JSON_TYPE, JSON.stringify({ user }))
  return `Bearer ${JSON.parse(body).access_token}`
}

async function signIn (agent: Agent, url: string, email: string): Promise<Answer> {
  const user = { email, password: PASSWORD }
  return await ask(agent, 'POST', `${url}/auth/sign_in`, JSON_TYPE, JSON.stringify({ user }))
}

async function createPage (
  url: string,
  authorization: string,
  text: string
): Promise<{ id: string, public_id: string }> {
  const body = JSON.stringify({ current_data: { text } })
  const headers = { ...JSON_TYPE, authorization }
  return JSON.parse((await ask(readers, 'POST', `${url}/landing_pages`, headers, body)).body)
}

/** Creates an account with a page and an upload, and returns the requests that read them. */
async function prepareReads (url: string): Promise<Reads> {
  const authorization = await signUp(url, READER)
  const { public_id: publicId } = await createPage(url, authorization, 'x'.repeat(2000))
  const upload = form('a.txt', Buffer.alloc(2000, 'x'))
  const created = await ask(readers, 'POST', `${url}/assets`, { authorization, ...FORM_TYPE }, upload)
  const { pathname } = new URL(JSON.parse(created.body).url)
  const steadily = (send: Read['send']): Read => ({ send, perSecond: READS_PER_SECOND })
  return {
    'page (warm)': steadily(async () => await ask(readers, 'GET', `${url}/landing_pages/${publicId}`)),
    'session check (PostgreSQL)': steadily(async () =>
      await ask(readers, 'GET', `${url}/auth/me`, { authorization })
    ),
    'upload (file system, through the thread pool)': steadily(async () =>
      await ask(readers, 'GET', `${url}${pathname}`)
    ),
    'sign-in of somebody else': {
      send: async () => await signIn(addresses.at(-1) as Agent, url, READER),
      perSecond: SIGN_INS_PER_SECOND,
      period: GREEDY
    }
  }
}

/** Creates the account of the load, with a page to write and large documents to list. */
async function prepareOwner (url: string): Promise<Owner> {
  const authorization = await signUp(url, EMAIL)
  for (let n = 0; n < 20; n++) await createPage(url, authorization, 'x'.repeat(60_000))
  const emails = Array.from({ length: 9 }, (_, n) => `owner-${n}@example.com`)
  for (const email of emails) await signUp(url, email)
  return { url, authorization, pageId: (await createPage(url, authorization, 'x')).id, emails }
}

/** Makes the load in a separate process, because the reads would otherwise wait until it is written. */
function startLoads (owner: Owner): { next: (name: string) => Promise<Answer[]>, end: () => void } {
  const child = fork(import.meta.filename, [JSON.stringify(owner)], { env: { ...process.env, [LOADS]: '1' } })
  return {
    async next (name) {
      child.send(name)
      const [answers] = await once(child, 'message') as [Answer[]]
      return answers
    },
    end () {
      child.disconnect()
    }
  }
}

function serveLoads (owner: Owner): void {
  process.on('message', async (name: string) => {
    const { count, send } = LOADS_BY_NAME[name] as Load
    const sendOne = send(owner)
    const answers = await Promise.all(Array.from({ length: count }, sendOne))
    process.send?.(answers.map(({ status, ms }) => ({ status, ms, body: '' })))
  })
  process.on('disconnect', () => process.exit())
}

async function readSteadily (
  reads: Reads,
  load?: () => Promise<unknown>
): Promise<Map<string, Answer[]>> {
  const underWay = new Map<string, Promise<Answer>[]>(Object.keys(reads).map((name) => [name, []]))
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
  const answers = new Map<string, Answer[]>()
  for (const [name, own] of underWay) answers.set(name, await Promise.all(own))
  await loading
  return answers
}

function report (reads: Reads, results: Results, answers: Map<string, Answer[]>): void {
  const at = (share: number, rounds: Answer[][] = []) =>
    median(rounds.map((list) => {
      const times = list.map(({ ms }) => ms).sort((a, b) => a - b)
      return times[Math.floor(times.length * share)] as number
    })) as number
  const verdicts: string[] = []
  for (const [name, periods] of results) {
    print(`\n| ${name}, ${
      reads[name]?.perSecond
    } a second | p50 ms | p99 ms | × without | not 200 |\n|---|--:|--:|--:|--:|`)
    const calm = at(0.99, periods.get(undefined))
    for (const [period, rounds] of periods) {
      const [p50, p99] = [at(0.5, rounds), at(0.99, rounds)]
      const failed = rounds.flat().filter(({ status }) => status !== 200).length
      const load = period === undefined ? 'without' : `${LOADS_BY_NAME[period]?.count} ${period}`
      const ratio = periods.has(undefined) ? (p99 / calm).toFixed(1) : ''
      print(`| ${load} | ${p50.toFixed(1)} | ${p99.toFixed(1)} | ${ratio} | ${failed} |`)
      if (name !== 'page (warm)' || period === undefined) continue
      const met = period === 'sign-ins' ? p99 <= MAX_RATIO * calm : p99 <= MAX_P99_MS
      verdicts.push(`${period}: ${met ? 'met' : 'missed'}`)
    }
  }
  print(`\np99 of public reads at most ${MAX_RATIO} times that without sign-ins, and ${MAX_P99_MS} ms beside the rest: ${
    verdicts.join(', ')
  }`)
  print('(Reads and loads come from two processes on the cores of the service, so these times include their own delays.)')
  for (const [name, list] of answers) {
    const statuses = [...new Set(list.map(({ status }) => status))].map((status) => {
      const times = list.filter((answer) => answer.status === status).map(({ ms }) => ms)
      return `${times.length} × ${status}, median ${Math.round(median(times) as number)} ms`
    })
    print(`${name}: ${statuses.join('; ')}`)
  }
}

try {
  if (process.env[LOADS] !== undefined) serveLoads(JSON.parse(process.argv[2] as string))
  else await main()
} catch (error) {
  console.error(error instanceof MissingProgramError ? error.message : error)
  process.exitCode = 1
}
