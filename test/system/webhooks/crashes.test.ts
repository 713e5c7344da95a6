import { Redis } from 'ioredis'
import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { claimRedis, query } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { CrashingService, type StopPoint } from '../faults/crashing-service.ts'

// SIGKILL at the steps between a write and the delivery of its message: none is lost, and none is early.

const STEPS = /^query .*outbox|^redis eval/i
/** More steps than a write and its message have, without the checks for other messages. */
const MAX_STEPS = 6

const settings: Record<string, string> = {
  ...await testSettings(t),
  ...RECEIVABLE,
  REDIS_URL: await claimRedis(t)
}
const database = settings.DATABASE_URL as string
const redis = new Redis(settings.REDIS_URL as string)
t.teardown(() => redis.disconnect())
const service = await CrashingService.start(t, settings)
const owner = await Owner.signUp(service.url)

/** Versions that were read from the service when their message arrived, and those that messages told. */
const arrivals: { told: number, read: number }[] = []
const receiver = await startReceiver(t, async ({ data: { page, version } }) => {
  const response = await fetch(`${service.url}/landing_pages/${page.public_id}`).catch(() => undefined)
  const read = response === undefined ? Infinity : ((await response.json()) as { version: number }).version
  arrivals.push({ told: version, read })
  return 204
})
const created = await owner.call('POST', `${service.url}/webhooks`, { json: { url: receiver.url } })
t.equal(created.status, 201)
const { id, public_id: publicId } = await owner.createPage(service.url, '{"version":1}')
await receiver.message(1)
const unfinished = async () =>
  await query(
    database,
    `SELECT version::integer, unconfirmed, settled_at > now() + interval '40 s' AS "isHeld" FROM outbox
  WHERE state IN ('waiting', 'sending')`
  )
const delivered = async (version: number): Promise<boolean> =>
  (await query(database, `SELECT FROM outbox WHERE version = ${version} AND state = 'delivered'`)).length > 0
await until(async () => await delivered(1))

/** Before each step, and while every other one is under way. */
const points = Array.from({ length: MAX_STEPS }, (_, index) => index + 1).flatMap((nth): StopPoint[] => {
  const point = { steps: STEPS, nth, withOwn: true }
  return [{ ...point, when: 'before' }, ...nth % 2 === 1 ? [{ ...point, when: 'during' as const }] : []]
})
let version = 1
for (const point of points) {
  t.test(`after SIGKILL ${point.when} step ${point.nth}, the message arrives`, async (t) => {
    const stop = await service.stopAt(point, async () => {
      await owner.update(service.url, id, `{"version":${version + 1}}`)
      await until(async () => await delivered(version + 1))
    })
    t.ok(stop, 'the process stopped')
    await service.kill()
    // PostgreSQL ends the statement of a killed process when it notices.
    await until(async () =>
      (await query(
        database,
        `SELECT FROM pg_stat_activity
          WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()`
      )).length === 0
    )
    const [waiting] = await unfinished()
    if (waiting !== undefined && Number(waiting.unconfirmed) > 0) {
      t.ok(waiting.isHeld, 'an unconfirmed change waits a minute')
    }
    await query(
      database,
      `UPDATE outbox SET due_at = now(), settled_at = now() - interval '1 s' WHERE state IN ('waiting', 'sending')`
    )
    await redis.flushdb() // copies in Redis live shorter than that minute
    await service.restart()
    const read = await fetch(`${service.url}/landing_pages/${publicId}`)
    const { version: current } = await read.json() as { version: number }
    t.ok(current === version || current === version + 1)
    version = current
    await until(async () => await delivered(current), `version ${current}`)
    t.same(await unfinished(), [])
    t.ok(arrivals.some(({ told }) => told === current))
  })
}

t.test('messages came in order, and no read was older than its message', async (t) => {
  const told = arrivals.map((one) => one.told)
  t.same(told, told.toSorted((a, b) => a - b))
  t.same(arrivals.filter(({ told, read }) => read < told), [])
})
