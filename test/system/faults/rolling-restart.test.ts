import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { JWT_SECRET } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { startReplica, type Replica } from '../../helpers/redis-replicas.ts'
import { createMigratedDatabase, startRedisServer } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Four processes at the default limit are replaced one after the other, while a crowd reads.

const LIMIT = 30
/** Two thirds of the limit, divided by four. */
const SHARE = 5
const SHARE_TIMEOUT_MS = 120_000
const READERS = 12
const PAUSE_MS = 100
/** Rates are compared over some seconds, because a process that starts needs a core. */
const SECONDS = 5
/** Reads that were sent to a process just before it is taken out of the rotation. */
const ROTATION_MS = 200

const redis = await startRedisServer(t)
const settings = {
  DATABASE_URL: await createMigratedDatabase(t),
  REDIS_URL: redis.url,
  JWT_SECRET,
  UPLOADS_DIR: temporaryFolder(t),
  LOG_LEVEL: 'warn',
  TRUST_PROXY: '127.0.0.0/8,::1',
  SHUTDOWN_DELAY_MS: '0'
}
const all: Replica[] = []
for (let n = 0; n < 4; n++) all.push(await startReplica(t, settings))
const owner = await Owner.signUp(all[0]!.url)
const { public_id: publicId } = await owner.createPage(all[0]!.url, '{"read":"by everybody"}')

const read = async ({ url }: Replica, client: string): Promise<number> =>
  (await call('GET', `${url}/landing_pages/${publicId}`, { headers: { 'x-forwarded-for': client } })).status
const anyOf = (replicas: readonly Replica[]): Replica =>
  replicas[Math.floor(Math.random() * replicas.length)] as Replica
const shares = async (): Promise<number[]> =>
  await Promise.all(all.map(async ({ metric }) => await metric('landfall_limit_share{tier="public"}')))

/** A crowd that reads until `stop()` is called, which returns the statuses of each second. */
function startCrowd (): { stop: () => Promise<number[][]> } {
  const seconds: number[][] = []
  const begun = performance.now()
  const state = { isOver: false }
  const readers = Array.from({ length: READERS }, async () => {
    while (!state.isOver) {
      const client = `10.${Math.floor(Math.random() * 256)}.${Math.floor(Math.random() * 256)}.1`
      const status = await read(anyOf(all), client)
      const second = Math.floor((performance.now() - begun) / 1000)
      while (seconds.length <= second) seconds.push([])
      seconds[second]!.push(status)
      await sleep(PAUSE_MS)
    }
  })
  return {
    stop: async () => {
      state.isOver = true
      await Promise.all(readers)
      return seconds.slice(0, -1) // the last one is not complete
    }
  }
}

let clients = 0
/** Returns how many reads a new client gets, from all processes in turn. */
async function spendAsNew (): Promise<number> {
  const client = `203.0.113.${++clients}`
  let passed = 0
  for (let n = 0; n < LIMIT + 4; n++) if (await read(all[n % all.length]!, client) === 200) passed++
  return passed
}

t.test('a rolling restart of four processes under a crowd goes unnoticed', async (t) => {
  await until(async () => (await shares()).every((share) => share === SHARE), 'shares', SHARE_TIMEOUT_MS)
  const before = startCrowd()
  await sleep(5000)
  const rates = (await before.stop()).map(({ length }) => length).sort((one, other) => one - other)
  const median = rates[rates.length >> 1] as number

  const during = startCrowd()
  const allowed: number[] = []
  for (const [index, old] of [...all].entries()) {
    all[index] = await startReplica(t, settings)
    await sleep(ROTATION_MS)
    const [code] = await Promise.all([
      old.end('SIGTERM'),
      spendAsNew().then((reads) => allowed.push(reads))
    ])
    t.equal(code, 0)
    allowed.push(await spendAsNew())
  }
  await until(async () => (await shares()).every((share) => share === SHARE), 'shares of all', 5000)
  allowed.push(await spendAsNew())
  const seconds = await during.stop()
  t.same([...new Set(seconds.flat())], [200], 'no read of the crowd fails or is refused')
  t.ok(allowed.every((reads) => Math.abs(reads - LIMIT) <= 1), `new clients get ${allowed}`)
  const rate = (from: number): number =>
    seconds.slice(from, from + SECONDS).reduce((sum, { length }) => sum + length, 0) / SECONDS
  const slowest = Math.min(...seconds.slice(0, 1 - SECONDS).map((_, from) => rate(from)))
  t.ok(slowest >= median / 2, `at least ${slowest} reads a second, ${median} before`)
})
