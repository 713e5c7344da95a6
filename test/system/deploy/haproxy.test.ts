import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { changedFile, startHaproxy } from '../../shared/balancer.ts'
import { call, checkConsoleOrigin, Owner } from '../../helpers/client.ts'
import { provide } from '../../shared/programs.ts'
import { connection, requestOf } from '../../helpers/raw.ts'
import { outcomes, Readers, statuses } from '../../helpers/readers.ts'
import { meanwhile } from '../../helpers/redis-replicas.ts'
import { claimRedis, createProxy, freePort } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Runs deploy/haproxy/haproxy.cfg with two replicas behind it.

const haproxy = provide('haproxy')

async function startBalancer (t: Test, ports: readonly number[], changes: Array<[string, string]> = []) {
  const port = await freePort()
  const config = changedFile('haproxy/haproxy.cfg', [
    ['bind :80\n', `bind 127.0.0.1:${port}\n`],
    ['  bind :::80 v6only', '  #'],
    ['127.0.0.1:3001', `127.0.0.1:${ports[0]}`],
    ['127.0.0.1:3002', `127.0.0.1:${ports[1]}`],
    ...changes
  ])
  return await startHaproxy(t, haproxy, config, port)
}

t.test('two replicas behind HAProxy', async (t) => {
  const settings = await testSettings(t)
  const database = await createProxy(t, settings.DATABASE_URL as string)
  const env = {
    ...settings,
    DATABASE_URL: database.url,
    REDIS_URL: await claimRedis(t),
    TRUST_PROXY: '127.0.0.1',
    ALLOWED_HOSTS: 'reader.test',
    RATE_LIMIT_ALLOWED_HOSTS: '1000000'
  }
  const ports = [await freePort(), await freePort()]
  const start = async (index: number) => await startService(t, { ...env, PORT: String(ports[index]) })
  const replicas = [await start(0), await start(1)]
  // The tests send all requests from one address.
  const { url, log, errors } = await startBalancer(t, ports, [['gt 4000', 'gt 1000000'], [
    'gt 64',
    'gt 10000'
  ]])
  const owner = await Owner.signUp(url)
  const origin = 'https://reader.test'

  t.test('both replicas count one limit per client and ignore a forged X-Forwarded-For', async (t) => {
    const { public_id: publicId } = await owner.createPage(url, '{"v":1}')
    const path = `/landing_pages/${publicId}`
    // On a busy machine, HAProxy's own checks may have found a replica too slow for a moment.
    await until(async () => {
      const before = log().length
      await Promise.all([1, 2, 3, 4].map(async () => await call('GET', `${url}/auth/me`)))
      return new Set(log().slice(before).map(({ server }) => server)).size === 2
    }, 'HAProxy uses both replicas')
    const responses = await Promise
      .all(Array.from(
        { length: 60 },
        async (_, n) =>
          await call('GET', `${url}${path}?secret`, { headers: { 'x-forwarded-for': `10.0.0.${n}` } })
      ))
    t.same(statuses(responses as never), { 200: 30, 429: 30 })
    const lines = () => log().filter((line) => line.path === path)
    await until(() => lines().length === 60, 'the requests are in the log, without their query')
    t.same([...new Set(lines().map(({ server }) => server))].sort(), ['landfall-1', 'landfall-2'])
    t.match(lines()[0], { address: '127.0.0.1', method: 'GET' })
  })

  t.test('only pages of the address of HAProxy may use the session of a browser', async (t) => {
    await checkConsoleOrigin(t, url)
  })

  t.test('the replicas restart one after the other without a failed request', async (t) => {
    const page = await owner.createPage(url, '{"n":0}')
    const readers = new Readers(t, {
      urls: [url],
      publicIds: [page.public_id],
      headers: { origin },
      resend: false
    })
    let n = 0
    const restart = async () => {
      for (const index of [0, 1]) {
        t.equal(await replicas[index]?.end('SIGTERM'), 0)
        replicas[index] = await start(index)
        const name = `landfall-${index + 1}`
        const before = log().filter(({ server }) => server === name).length
        await until(
          () => log().filter(({ server }) => server === name).length > before,
          `${name} is used again`
        )
      }
    }
    const writes: Array<number | string> = []
    const reads = await readers.during(async () =>
      await meanwhile(restart, async () => {
        const sent = [owner.update(url, page.id, `{"n":${++n}}`), owner.upload(url, randomBytes(3000))]
        writes.push(...await outcomes(sent))
      }, 10)
    )
    t.same(statuses(reads), { 200: reads.length })
    t.same([...new Set(writes)].sort(), [200, 201])
    await readers.stop()
  })

  t.test('reads succeed while one replica is killed', async (t) => {
    const { public_id: publicId } = await owner.createPage(url, '{"v":1}')
    const readers = new Readers(t, { urls: [url], publicIds: [publicId], headers: { origin }, resend: false })
    const reads = await readers.during(async () => {
      await replicas[0]?.end('SIGKILL')
      await until(() => /landfall-1 is DOWN/.test(errors()), 'HAProxy has noticed it')
      replicas[0] = await start(0)
    })
    const failed = log().filter(({ path, status }) => path === `/landing_pages/${publicId}` && status !== 200)
    t.same(statuses(reads), { 200: reads.length }, 'all reads succeed', { failed })
    await readers.stop()
  })

  t.test('cached documents are served while no replica is ready', async (t) => {
    const { public_id: publicId } = await owner.createPage(url, '{"v":1}')
    for (const port of ports) await call('GET', `http://127.0.0.1:${port}/landing_pages/${publicId}`)
    await database.refuse()
    await until(
      async () => (await call('GET', `${url}/health/ready`)).status === 503,
      'no replica is ready'
    )
    t.match(await call('GET', `${url}/landing_pages/${publicId}`, { headers: { origin } }), {
      status: 200,
      text: '{"v":1}'
    })
    await database.restore()
    await until(async () => (await call('GET', `${url}/health/ready`)).status === 200, 'they are ready again')
  })
})

t.test('HAProxy limits each client and has errors like those of the service', async (t) => {
  const port = Number(new URL((await startService(t, await testSettings(t))).url).port)
  const json = 'application/json; charset=utf-8'
  /** Asks until the status is as wanted; `prepare` runs before each time. */
  const refusal = async (url: string, status: number, prepare = () => {}) =>
    await until(async () => {
      prepare()
      const { headers, text, ...response } = await call('GET', `${url}/health/live`)
      return response.status === status &&
        [headers.get('content-type'), headers.get('retry-after'), JSON.parse(text).errors[0]]
    }, `a ${status}`)

  const crowded = await startBalancer(t, [port, port], [['gt 64', 'gt 3']])
  const wait = () => {
    connection(t, crowded.url)
      .send(requestOf('/auth/sign_in', { 'Content-Type': 'application/json', 'Content-Length': '9' }, 'POST'))
  }
  t.match(await refusal(crowded.url, 503, wait), [json, '1', /at once/])

  const busy = await startBalancer(t, [port, port], [['gt 4000', 'gt 20']])
  t.match(await refusal(busy.url, 429), [json, '10', /^Too many requests/])

  const nobody = await freePort()
  const alone = await startBalancer(t, [nobody, nobody])
  t.match(await refusal(alone.url, 503), [json, '1', /^The service is temporarily unavailable/])
})
