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
/** Two thirds of the limit, divided by three. */
const SHARE = 6
/** The third of the limit that no process can keep back, however slow the others are. */
const SURE = 10
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
/** A process that pauses for three seconds begins anew without a share. */
const untilSharing = async (replicas: readonly Replica[], least: number): Promise<true> =>
  await until(
    async () => (await shares(replicas)).every((share) => share >= least),
    'every process has its share',
    MAX_WITHOUT_SHARE_MS
  )

/** The runs of scripts in Redis, and the leases that processes requested. */
async function questions (replicas: readonly Replica[]): Promise<number[]> {
  const [, calls = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
  const leases = replicas.map(async ({ metric }) => await metric('landfall_leases_total{tier="public"}'))
  return [Number(calls), ...await Promise.all(leases)]
}

t.test('the limit is exact with first shares', async (t) => {
  const seen = new Set<string>()
  await until(
    async () => {
      const inTurn = await undisturbed(all, async () => await readInTurn(all, newClient(), LIMIT + 3))
      t.equal(passed(inTurn), LIMIT, 'in turn')
      const atOnce = await undisturbed(all, async () => await readAtOnce(all, newClient(), LIMIT + 9))
      t.equal(passed(atOnce), LIMIT, 'at once')
      const now = await shares(all)
      if (performance.now() - startedAt < MIN_WITHOUT_SHARE_MS) seen.add(String(now.sort()))
      return now.every((share) => share === SHARE)
    },
    'every process has its share',
    MAX_WITHOUT_SHARE_MS
  )
  sharedAt = performance.now()
  t.ok(seen.has('0,2,5'), `first shares: ${[...seen].join('; ')}`)
})

t.test('a client gets exactly its limit from three processes', async (t) => {
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

t.test('reads within the shares ask no Redis', async (t) => {
  const before = await undisturbed(all, async () => {
    await untilSharing(all, SHARE)
    const before = await questions(all)
    const reads = Array.from({ length: 20 }, async () => await readAtOnce(all, newClient(), 12))
    t.same([...new Set((await Promise.all(reads)).flat())], [200])
    return before
  })
  t.same(await questions(all), before)
})

t.test('a client of one of three processes gets its limit there', async (t) => {
  for (const replica of all) {
    t.same(await spendAtOne(t, replica, LIMIT, 'of three'), [...Array(LIMIT).fill(200), 429, 429, 429])
  }
})

t.test('a killed process leaves each client at least a third of its limit', async (t) => {
  const [one, two, victim] = all
  const others = [one, two]
  await until(() => performance.now() > sharedAt + UNKNOWN_SHARE_MS)
  /** Clients, and how many reads they made at the process before it is killed. */
  const earlier = new Map(Array.from({ length: SURE + 1 }, (_, reads) => [newClient(), reads]))
  for (const [client, reads] of earlier) t.equal(passed(await readInTurn([victim], client, reads)), reads)
  await victim.end('SIGKILL')
  const totals: number[] = []
  for (const [client, reads] of earlier) {
    totals.push(reads + passed(await readInTurn(others, client, LIMIT + 3)))
  }
  // Less is left to a client if one of the others is late to say what it has not spent.
  t.ok(totals.every((total) => total >= SURE && total <= LIMIT) && Math.max(...totals) >= 20, `${totals}`)
  t.same(await readInTurn(others, newClient(), SURE), Array(SURE).fill(200), 'others')
  await untilSharing(others, SHARE)
})

t.test('no client exceeds its limit while Redis is flushed and restarted, and shares return', async (t) => {
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
      for (const status of await readAtOnce(others, newClient(), SURE)) statuses.add(status)
    },
    100
  )
  t.same([...statuses], [200], 'of clients that stay below their limit')
  await untilSharing(others, SHARE)
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

t.test('a rolling restart of four processes under a crowd goes unnoticed', async (t) => {
  await untilSharing(restarted, SHARE_OF_FOUR)
  const statuses = new Set<number>()
  const underWay: Replica[] = []
  const crowd = { isOver: false }
  const reading = Array.from({ length: 12 }, async () => {
    while (!crowd.isOver) {
      const replica = restarted[Math.floor(Math.random() * restarted.length)]!
      underWay.push(replica)
      statuses.add((await read(replica, newClient())).status)
      underWay.splice(underWay.indexOf(replica), 1)
      await sleep(100)
    }
  })
  const spendAsNew = async () => passed(await readInTurn(restarted, newClient(), LIMIT + 4))
  const allowed: number[] = []
  for (const [index, old] of [...restarted].entries()) {
    restarted[index] = await startOther()
    await until(() => !underWay.includes(old), 'nobody reads from it any more')
    const [code] = await Promise.all([old.end('SIGTERM'), spendAsNew().then((reads) => allowed.push(reads))])
    t.equal(code, 0)
  }
  await untilSharing(restarted, SHARE_OF_FOUR)
  await until(async () => {
    allowed.push(await spendAsNew())
    return allowed.at(-1) === LIMIT
  }, 'a new client gets exactly its limit')
  crowd.isOver = true
  await Promise.all(reading)
  t.same([...statuses], [200], 'no read of the crowd fails or is refused')
  t.ok(allowed.every((reads) => reads >= SURE && reads <= LIMIT + 1), `new clients get ${allowed}`)
})
