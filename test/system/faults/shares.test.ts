import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { JWT_SECRET } from '../../helpers/app.ts'
import { call, Owner, type Response } from '../../helpers/client.ts'
import { meanwhile, startReplica, undisturbed, untilHearing, untilShared,
  type Replica } from '../../helpers/redis-replicas.ts'
import { createMigratedDatabase, startRedisServer } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Three processes at the default limit, with shares: what clients get, before, with and after faults.

const LIMIT = 30
const WINDOW_MS = 60_000
/** For several rolling restarts on a busy machine. */
const MAX_RESTARTS_MS = 300_000
/** Two thirds of the limit, divided by three. */
const SHARE = 6
/** Two thirds of the limit, divided by four. */
const SHARE_OF_FOUR = 5
/** Two thirds of the limit, divided by two: the share after one of three processes was killed. */
const MAX_SHARE = 10
/** The shortest time without a share, and a limit for a process to get one, in milliseconds. */
const MIN_WITHOUT_SHARE_MS = 60_000
const MAX_WITHOUT_SHARE_MS = 120_000
/** For so long after it got its share, others may assume that a process had all shares, in milliseconds. */
const UNKNOWN_SHARE_MS = 5000

const redis = await startRedisServer(t)
const admin = new Redis(redis.url, { retryStrategy: () => 50, commandTimeout: 5000 })
admin.on('error', () => {})
t.teardown(() => admin.disconnect())
const settings = {
  DATABASE_URL: await createMigratedDatabase(t),
  REDIS_URL: redis.url,
  JWT_SECRET,
  UPLOADS_DIR: temporaryFolder(t),
  LOG_LEVEL: 'warn',
  TRUST_PROXY: '127.0.0.0/8,::1'
}
const startedAt = performance.now()
let sharedAt = Infinity
const all: [Replica, Replica, Replica] = [
  await startReplica(t, settings),
  await startReplica(t, settings),
  await startReplica(t, settings)
]
/** Four with another Redis, so that a test with new processes doesn't wait another minute for shares. */
const otherSettings = { ...settings, REDIS_URL: (await startRedisServer(t)).url, SHUTDOWN_DELAY_MS: '0' }
const startOther = async (): Promise<Replica> => await startReplica(t, otherSettings)
const restarted: Replica[] = []
while (restarted.length < 4) restarted.push(await startOther())
const owner = await Owner.signUp(all[0].url)
const { public_id: publicId } = await owner.createPage(all[0].url, '{"read":"by everybody"}')

let clients = 0
const newClient = (): string => `203.0.${++clients >> 8}.${clients & 255}`
const read = async ({ url }: Replica, client: string): Promise<Response> =>
  await call('GET', `${url}/landing_pages/${publicId}`, { headers: { 'x-forwarded-for': client } })

/** Reads from the replicas in turn; returns the statuses. */
async function readInTurn (replicas: readonly Replica[], client: string, reads: number): Promise<number[]> {
  const statuses = []
  for (let n = 0; n < reads; n++) {
    statuses.push((await read(replicas[n % replicas.length] as Replica, client)).status)
  }
  return statuses
}

/** Reads from all replicas at once; returns the statuses. */
async function readAtOnce (replicas: readonly Replica[], client: string, reads: number): Promise<number[]> {
  const reading = Array.from(
    { length: reads },
    async (_, n) => (await read(replicas[n % replicas.length] as Replica, client)).status
  )
  return await Promise.all(reading)
}

const passed = (statuses: readonly number[]): number => statuses.filter((status) => status === 200).length

/**
 * Reads as new clients at one process until one gets `least` reads, and checks that none gets more than its
 * limit. On a busy machine, others may say too late how much of their shares is unspent, and a process that
 * has gone may be remembered for a minute.
 */
async function spendAtOne (t: Test, replica: Replica, least: number, when: string): Promise<number[]> {
  return await until(
    async () => {
      const statuses = await readInTurn([replica], newClient(), LIMIT + 3)
      const reads = passed(statuses)
      t.ok(reads <= LIMIT, `${reads} at one process ${when}`)
      return reads >= least && statuses
    },
    `a client gets ${least} at one process ${when}`,
    MAX_WITHOUT_SHARE_MS
  )
}
const shareOf = async ({ metric }: Replica): Promise<number> =>
  await metric('landfall_limit_share{tier="public"}')
const shares = async (replicas: readonly Replica[]): Promise<number[]> =>
  await Promise.all(replicas.map(shareOf))

/** The runs of scripts in Redis, and the leases that processes requested. */
async function questions (replicas: readonly Replica[]): Promise<number[]> {
  const [, calls = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
  const leases = replicas.map(async ({ metric }) => await metric('landfall_leases_total{tier="public"}'))
  return [Number(calls), ...await Promise.all(leases)]
}

t.test('processes have first shares in their first minute, and the limit is exact', async (t) => {
  let rounds = 0
  await until(
    async () => {
      const inTurn = await undisturbed(all, async () => await readInTurn(all, newClient(), LIMIT + 3))
      t.equal(passed(inTurn), LIMIT, 'in turn')
      const atOnce = await undisturbed(all, async () => await readAtOnce(all, newClient(), LIMIT + 9))
      t.equal(passed(atOnce), LIMIT, 'at once')
      rounds++
      const now = await shares(all)
      const ageMs = performance.now() - startedAt
      if (ageMs < MIN_WITHOUT_SHARE_MS) {
        t.same(now.sort(), [0, 2, 5], `first shares after ${Math.round(ageMs)} ms`)
      }
      return now.every((share) => share === SHARE)
    },
    'every process has its share',
    MAX_WITHOUT_SHARE_MS
  )
  sharedAt = performance.now()
  t.comment(`${rounds} rounds`)
})

t.test('a client gets exactly its limit from three processes with shares, then 429 from each', async (t) => {
  for (const readAll of [readInTurn, readAtOnce]) {
    const client = await undisturbed(all, async () => {
      const client = newClient()
      t.equal(passed(await readAll(all, client, LIMIT)), LIMIT, 'all of the limit')
      return client
    })
    for (const replica of all) {
      const { status, headers } = await read(replica, client)
      const seconds = Number(headers.get('retry-after'))
      t.equal(status, 429)
      t.ok(seconds >= 1 && seconds <= 60, `after ${seconds} s`)
    }
  }
})

t.test('well-behaved clients are never refused, and none of their reads asks Redis', async (t) => {
  const before = await undisturbed(all, async () => {
    t.same(await shares(all), [SHARE, SHARE, SHARE])
    const before = await questions(all)
    const reads = Array.from({ length: 20 }, async () => await readAtOnce(all, newClient(), 12))
    t.same([...new Set((await Promise.all(reads)).flat())], [200])
    return before
  })
  t.same(await questions(all), before)
})

t.test('a client that reads from one of three processes only gets exactly its limit there', async (t) => {
  for (const replica of all) {
    t.same(await spendAtOne(t, replica, LIMIT, 'of three'), [...Array(LIMIT).fill(200), 429, 429, 429])
  }
})

t.test('a killed process costs a client at most a third of its limit, and others go on', async (t) => {
  const [one, two, victim] = all
  const others = [one, two]
  await until(() => performance.now() > sharedAt + UNKNOWN_SHARE_MS)
  /** Clients, and how many reads they made at the process before it is killed. */
  const earlier = new Map(Array.from({ length: 15 }, (_, reads) => [newClient(), reads]))
  for (const [client, reads] of earlier) t.equal(passed(await readInTurn([victim], client, reads)), reads)
  await victim.end('SIGKILL')
  for (const [client, reads] of earlier) {
    const total = reads + passed(await readInTurn(others, client, LIMIT + 3))
    t.ok(total >= 20 && total <= LIMIT, `${total} of ${LIMIT}, ${reads} of them before`)
  }
  t.same(await readInTurn(others, newClient(), 2 * SHARE), Array(2 * SHARE).fill(200), 'others')
  t.ok((await shares(others)).every((share) => share >= SHARE), 'the others keep their shares')
})

t.test('while Redis is flushed and started again, no process exceeds the limit, and shares come back', async (t) => {
  const [one, two] = all
  const others = [one, two]
  const statuses = new Set<number>()
  const expectLimits = async (when: string): Promise<void> => {
    for (const replica of others) await spendAtOne(t, replica, 20, when)
  }
  await meanwhile(
    async () => {
      await admin.flushall()
      await admin.script('FLUSH')
      await expectLimits('after the flush')
      await redis.stop()
      await until(async () => (await shares(others)).every((share) => share === 0), 'no process has a share')
      await expectLimits('without Redis')
      await redis.start()
      await untilShared(others, true)
      await untilHearing(others, true)
      await expectLimits('with a new Redis')
    },
    async () => {
      for (const status of await readAtOnce(others, newClient(), 2 * SHARE)) statuses.add(status)
    },
    100
  )
  t.same([...statuses], [200], 'of clients that stay below their limit')
  await until(
    async () => (await shares(others)).every((share) => share >= SHARE),
    'shares are back',
    MAX_WITHOUT_SHARE_MS
  )
})

t.test('a process that stops returns what a client has left', async (t) => {
  const [one, two] = all
  const client = newClient()
  // As many as no share can hold: a process that is slow to tell its share costs a client up to two thirds.
  t.equal(passed(await readInTurn([one], client, MAX_SHARE)), MAX_SHARE)
  t.equal(await one.end('SIGTERM'), 0)
  // What processes that are gone may have allowed is kept back from every client, and less from later ones.
  const most = passed(await readInTurn([two], newClient(), LIMIT + 3))
  const left = await readInTurn([two], client, LIMIT)
  t.ok(passed(left) >= most - MAX_SHARE && passed(left) <= LIMIT - MAX_SHARE, `${passed(left)} of ${most}`)
  t.equal(left.at(-1), 429)
  t.equal(await two.end('SIGTERM'), 0)
})

t.test('a client gets exactly its limit during and after a rolling restart', async (t) => {
  await until(
    async () => (await shares(restarted)).every((share) => share === SHARE_OF_FOUR),
    'every process has its share',
    MAX_WITHOUT_SHARE_MS
  )
  /** Returns how many reads each client gets; nothing if its window ended meanwhile, on a busy machine. */
  const readDuringRestart = async (): Promise<number[] | undefined> => {
    const begun = performance.now()
    const total = new Map(Array.from({ length: 4 }, () => [newClient(), 0]))
    const readAll = async (reads: number) => {
      for (const [client, sum] of total) {
        total.set(client, sum + passed(await readInTurn(restarted, client, reads)))
      }
    }
    await readAll(7)
    for (const [index, stopping] of [...restarted].entries()) {
      restarted[index] = await startOther()
      const [code] = await Promise.all([stopping.end('SIGTERM'), readAll(4)])
      t.equal(code, 0)
      await readAll(1)
    }
    await readAll(LIMIT)
    return performance.now() < begun + WINDOW_MS ? [...total.values()] : undefined
  }
  t.same(
    await until(readDuringRestart, 'a restart within a window', MAX_RESTARTS_MS),
    [LIMIT, LIMIT, LIMIT, LIMIT]
  )
  t.equal(passed(await readInTurn(restarted, newClient(), LIMIT + 3)), LIMIT, 'a new client')
})

/**
 * Starts a crowd that reads until `stop()` is called, which returns the statuses of each complete second.
 * `underWay` has the replicas of reads without a response.
 */
function startCrowd (): { underWay: Replica[], stop: () => Promise<number[][]> } {
  const underWay: Replica[] = []
  const seconds: number[][] = []
  const begun = performance.now()
  const state = { isOver: false }
  const readers = Array.from({ length: 12 }, async () => {
    while (!state.isOver) {
      const client = `10.${Math.floor(Math.random() * 256)}.${Math.floor(Math.random() * 256)}.1`
      const replica = restarted[Math.floor(Math.random() * restarted.length)]!
      underWay.push(replica)
      const { status } = await read(replica, client)
      underWay.splice(underWay.indexOf(replica), 1)
      const second = Math.floor((performance.now() - begun) / 1000)
      while (seconds.length <= second) seconds.push([])
      seconds[second]!.push(status)
      await sleep(100)
    }
  })
  return {
    underWay,
    stop: async () => {
      state.isOver = true
      await Promise.all(readers)
      return seconds.slice(0, -1)
    }
  }
}

t.test('a rolling restart of four processes under a crowd goes unnoticed', async (t) => {
  const before = startCrowd()
  await sleep(5000)
  const rates = (await before.stop()).map(({ length }) => length).sort((one, other) => one - other)
  const median = rates[rates.length >> 1] as number

  const spendAsNew = async () => passed(await readInTurn(restarted, newClient(), LIMIT + 4))
  const during = startCrowd()
  const allowed: number[] = []
  for (const [index, old] of [...restarted].entries()) {
    restarted[index] = await startOther()
    await until(() => !during.underWay.includes(old), 'nobody reads from it any more')
    const [code] = await Promise.all([old.end('SIGTERM'), spendAsNew().then((reads) => allowed.push(reads))])
    t.equal(code, 0)
    allowed.push(await spendAsNew())
  }
  await until(
    async () => (await shares(restarted)).every((share) => share === SHARE_OF_FOUR),
    'every process continues with a share'
  )
  allowed.push(await spendAsNew())
  const seconds = await during.stop()
  t.same([...new Set(seconds.flat())], [200], 'no read of the crowd fails or is refused')
  t.ok(allowed.every((reads) => Math.abs(reads - LIMIT) <= 1), `new clients get ${allowed}`)
  // Of five seconds, because a process that starts needs a core.
  const rate = (from: number): number =>
    seconds.slice(from, from + 5).reduce((sum, { length }) => sum + length, 0) / 5
  const slowest = Math.min(...seconds.slice(0, -4).map((_, from) => rate(from)))
  t.ok(slowest >= median / 2, `at least ${slowest} reads a second, ${median} before`)
})
