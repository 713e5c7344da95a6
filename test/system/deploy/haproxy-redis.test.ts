import { Redis } from 'ioredis'
import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { changedFile, startHaproxy } from '../../shared/balancer.ts'
import { call, Owner } from '../../helpers/client.ts'
import { provide } from '../../shared/programs.ts'
import { ORIGIN, untilLimitIsShared } from '../../helpers/behind-proxy.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { freePort, startRedisServer } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Runs deploy/haproxy/redis.cfg with a Redis primary and its replica, and promotes the replica.

const haproxy = provide('haproxy')

t.test('the service goes on when Redis behind HAProxy fails over', async (t) => {
  const primary = await startRedisServer(t)
  const standby = await startRedisServer(t)
  const { password } = new URL(primary.url)
  const admin = new Redis(standby.url, { lazyConnect: true })
  t.teardown(() => admin.disconnect())
  await admin.config('SET', 'masterauth', password)
  await admin.config('SET', 'requirepass', password)
  await admin.replicaof('127.0.0.1', primary.port)
  await until(async () => /master_link_status:up/.test(await admin.info('replication')), 'it is a replica')

  const port = await freePort()
  const config = changedFile('haproxy/redis.cfg', [
    ['127.0.0.1:6380', `127.0.0.1:${port}`],
    ['127.0.0.1:6379', `127.0.0.1:${standby.port}`],
    ['127.0.0.2:6379', `127.0.0.1:${primary.port}`],
    // A busy machine must not look like a Redis that is away.
    ['timeout connect 300ms', 'timeout connect 30s\n  timeout check 30s'],
    ['fall 2', 'fall 5'],
    ['# tcp-check send AUTH\\ PASSWORD', `tcp-check send AUTH\\ ${password}`],
    ['# tcp-check expect string +OK', 'tcp-check expect string +OK']
  ])
  const { errors } = await startHaproxy(t, haproxy, config, port)
  await until(
    () => /redis-1 is DOWN/.test(errors()),
    'HAProxy knows the primary, although it is not the first'
  )

  const settings = {
    ...await testSettings(t),
    REDIS_URL: `redis://:${password}@127.0.0.1:${port}`,
    TRUST_PROXY: '127.0.0.0/8,::1',
    ALLOWED_HOSTS: 'reader.test',
    RATE_LIMIT_ALLOWED_HOSTS: '1000000'
  }
  const replicas = [await startService(t, settings), await startService(t, settings)]
  const [one = '', two = ''] = replicas.map(({ url }) => url)
  const owner = await Owner.signUp(one)
  const page = await owner.createPage(one, '{"v":1}')
  const path = `/landing_pages/${page.public_id}`
  const untilRedis = async (state: string) => {
    for (const url of [one, two]) {
      await until(async () => (await call('GET', `${url}/health/ready`)).json().redis === state, state)
    }
  }
  await untilRedis('ok')
  await untilLimitIsShared([one, two], path)

  const readers = new Readers(t, { urls: [one, two], publicIds: [page.public_id], headers: ORIGIN })
  const reads = await readers.during(async () => {
    await primary.kill()
    await untilRedis('away')
    await admin.replicaof('NO', 'ONE')
    await untilRedis('ok')
  })
  await readers.stop()
  t.same(statuses(reads), { 200: reads.length }, 'no read failed meanwhile')
  await untilLimitIsShared([one, two], path)
  t.equal((await owner.update(one, page.id, '{"v":2}')).status, 200)
  await until(
    async () => (await call('GET', two + path, { headers: ORIGIN })).text === '{"v":2}',
    'the other replica has heard of a write'
  )
})
