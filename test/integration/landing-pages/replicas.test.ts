import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { buildTestApp, createPage, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { claimRedis, createProxy, startRedisServer } from '../../helpers/servers.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Two replicas on one PostgreSQL and one Redis.

async function replicas (
  t: Test,
  redisUrl: string,
  settings: Record<string, string> = {},
  otherRedisUrl = redisUrl
) {
  const common = { ...await testSettings(t), RATE_LIMIT_PUBLIC: '1000000', ...settings }
  const one = await buildTestApp(t, { ...common, REDIS_URL: redisUrl })
  const two = await buildTestApp(t, { ...common, REDIS_URL: otherRedisUrl })
  return { one, two, owner: await signUp(one) }
}
type Owner = Awaited<ReturnType<typeof signUp>>
const read = async (app: FastifyInstance, publicId: string, remoteAddress = '192.0.2.1') =>
  await app.inject({ url: `/landing_pages/${publicId}`, remoteAddress })
const replace = async (app: FastifyInstance, owner: Owner, id: string, document: string) =>
  await sendAs(app, owner, 'PATCH', `/manage/landing_pages/${id}`, `{"current_data":${document}}`)
const remove = async (app: FastifyInstance, owner: Owner, id: string) =>
  await sendAs(app, owner, 'DELETE', `/manage/landing_pages/${id}`)

t.test('replicas start without Redis and use it once it is reachable', async (t) => {
  const redis = await startRedisServer(t)
  const proxy = await createProxy(t, redis.url)
  await proxy.refuse()
  const { one, two, owner } = await replicas(t, proxy.url, { RATE_LIMIT_PUBLIC: '30' })
  t.equal(one.redisClient!.reachable, false)
  const page = await createPage(one, owner)
  for (const app of [one, two]) {
    const statuses = []
    for (let n = 0; n < 31; n++) statuses.push((await read(app, page.public_id)).statusCode)
    t.same(statuses, [...Array(30).fill(200), 429], 'each replica applies the limit separately')
  }
  await proxy.restore()
  await until(() =>
    one.redisClient!.reachable && two.redisClient!.reachable && one.redisClient!.subscribed &&
    two.redisClient!.subscribed
  )
  await replace(one, owner, page.id, '{"back":true}')
  let reader = 20
  await until(async () =>
    (await read(two, page.public_id, `198.51.100.${reader++ % 250}`)).body === '{"back":true}'
  )
})

t.test('after a write of unknown outcome, the old version is served for 60 s at most', async (t) => {
  const settings: Record<string, string> = {
    ...await testSettings(t),
    RATE_LIMIT_PUBLIC: '1000000',
    REDIS_URL: await claimRedis(t)
  }
  const databaseUrl = settings.DATABASE_URL as string
  const proxy = await createProxy(t, databaseUrl)
  const one = await buildTestApp(t, { ...settings, DATABASE_URL: proxy.url })
  const two = await buildTestApp(t, settings)
  const owner = await signUp(one)
  const [changed, deleted] = [
    await createPage(one, owner, '{"v":1}'),
    await createPage(one, owner, '{"v":1}')
  ]
  const readAll = async () =>
    await Promise.all([changed, deleted].flatMap(({ public_id: id }) =>
      [one, two].map(async (app) => {
        const { statusCode, body } = await read(app, id)
        return statusCode === 200 ? body : statusCode
      })
    ))
  t.same(await readAll(), Array(4).fill('{"v":1}'))

  const { client } = await openTransaction(t, databaseUrl)
  await client.query('LOCK TABLE landing_pages IN SHARE MODE') // does not block reads
  const writes = [replace(one, owner, changed.id, '{"v":2}'), remove(one, owner, deleted.id)]
  await untilBlocked(databaseUrl, 2)
  await proxy.disconnect()
  t.same((await Promise.all(writes)).map(({ statusCode }) => statusCode), [503, 503])
  await client.query('COMMIT')
  const managed = async (id: string) =>
    (await sendAs(two, owner, 'GET', `/manage/landing_pages/${id}/document`)).body
  await until(async () => await managed(changed.id) === '{"v":2}', 'the first write is done')
  await until(async () => /Not found/.test(await managed(deleted.id)), 'the second one, too')

  const soon = await readAll()
  const truth = ['{"v":2}', '{"v":2}', 404, 404]
  t.ok(
    soon.every((answer, index) => ['{"v":1}', truth[index]].includes(answer)),
    'the old or the new version'
  )

  const real = clock.now
  replaceClock(t, () => real() + 60_000)
  const redis = two.redisClient!.commands
  for (const key of await redis.keys('landfall:document:*')) {
    await redis.pexpire(key, await redis.pttl(key) - 60_000)
  }
  t.same(await readAll(), truth)
})
